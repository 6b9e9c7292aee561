"""The settings of a sweep: what all seeds show together fails, where each alone shows nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from audit.gate import baseline, verdict
from audit.gate.outcome import Outcome, State
from audit.gate.policy import Limit, Policy, Waiver
from audit.results.schema import FindingResult, ReleaseResult, Results, SweepResult
from audit.run.sweep.over_seeds import cells
from audit.statistics.one_run import epsilon_lower, p_value
from reports import sarif

LEAK = "leak/submix/extraction.hit_rate"
CLAIM = "empirical/submix"


def sweep(make: SimpleNamespace, *releases: ReleaseResult) -> Results:
    joined = SweepResult(seeds=[], cells=cells(releases))
    results: Results = make.run(*releases, sweep=joined)
    return results


def seeds(make: SimpleNamespace, *found: FindingResult, **changes: Any) -> list[ReleaseResult]:
    """One setting, one seed for each of these findings."""
    adjusted = {"tests": 1, "claim_tests": 1, **changes}
    return [make.release("submix", f, seed=i, **adjusted) for i, f in enumerate(found)]


def quiet(make: SimpleNamespace, count: int = 5, **changes: Any) -> list[FindingResult]:
    """Seeds that find no leak alone (p = 0.06), and one together (p = 0.002)."""
    return [make.rate(2, p_value=0.06, test="extraction", **changes) for _ in range(count)]


def claimed(make: SimpleNamespace) -> list[FindingResult]:
    """Seeds that refute ε = 1 together, and not alone."""
    right, evidence = 48, {"m": 60, "guesses": [(60, 48)], "delta": 0.0}
    assert p_value(1.0, 60, 60, right, 0.0) > 0.05
    bound = make.bound(epsilon_lower(60, 60, right, 0.0), **evidence)
    found = {"epsilon_lower": bound, "claim": "not refuted", "claim_sentence": "It holds."}
    return quiet(make, **found)


def gate(make: SimpleNamespace, results: Results, accepted: Any = None, **policy: Any) -> Outcome:
    outcome: Outcome = verdict(results, Policy(**policy), accepted, make.today)
    return outcome


def failed(outcome: Outcome) -> list[str]:
    return [check.id for check in outcome.checks if check.state == State.FAIL]


def test_a_leak_of_all_seeds_together_fails(make: SimpleNamespace) -> None:
    """The gate passed: no seed shows it alone."""
    results = sweep(make, *seeds(make, *quiet(make)))
    assert results.sweep is not None and results.sweep.cells[0].leaked == "leak"
    assert all(release.leaked == "no leak found" for release in results.releases)
    outcome = gate(make, results)
    assert (failed(outcome), outcome.exit_code) == ([LEAK], 1)
    check = next(c for c in outcome.checks if c.id == LEAK)
    assert check.sentence.startswith("all 5 seeds together: a leak (0.02 [")
    assert LEAK in sarif.render(outcome)


def test_a_claim_that_all_seeds_together_refute_fails(make: SimpleNamespace) -> None:
    promise = make.claim(1.0, delta=0.0)
    results = sweep(make, *seeds(make, *claimed(make), guarantee=promise))
    assert results.sweep is not None and results.sweep.cells[0].claim == "refuted"
    assert all(release.claim == "not refuted" for release in results.releases)
    outcome = gate(make, results)
    assert set(failed(outcome)) == {LEAK, CLAIM}
    check = next(c for c in outcome.checks if c.id == CLAIM)
    assert check.sentence.startswith("all 5 seeds together: claimed: ε = 1 nats")
    assert "refuted by extraction.hit_rate" in check.sentence
    assert failed(gate(make, results, empirical=False)) == [LEAK]


@pytest.mark.parametrize("reference", [True, False])
def test_nothing_else_of_a_setting_is_checked(reference: bool, make: SimpleNamespace) -> None:
    """Silence, doubt, and a leak of a reference or of a single seed have their checks, or none."""
    calm = seeds(make, make.rate(0), make.rate(0, leaked="inconclusive"))
    loud = [make.release("none", f, seed=i, reference=True) for i, f in enumerate(quiet(make))]
    results = sweep(make, *calm, *(loud if reference else []))
    bare = results.model_copy(update={"sweep": None})
    assert gate(make, results) == gate(make, bare)
    alone = sweep(make, *seeds(make, make.rate(40, leaked="leak", p_value=1e-9)))
    assert gate(make, alone) == gate(make, alone.model_copy(update={"sweep": None}))
    beyond = seeds(make, *quiet(make, stronger_than_release=True))
    assert failed(gate(make, sweep(make, *beyond))) == []


def test_a_limit_allows_a_leak_of_a_setting_by_name(make: SimpleNamespace) -> None:
    results = sweep(make, *seeds(make, *quiet(make)))
    assert failed(gate(make, results, limit=[Limit(0.2, metric="hit_rate", line=1)])) == []
    assert LEAK in failed(gate(make, results, limit=[Limit(0.2, metric="*", line=1)]))
    assert LEAK in failed(gate(make, results, limit=[Limit(0.2, metric="recall", line=1)]))
    one_of_two = [
        release.model_copy(update={"findings": [*release.findings, other]})
        for release in results.releases
        for other in quiet(make, 1, metric="recall")
    ]
    found = gate(make, sweep(make, *one_of_two), limit=[Limit(0.2, metric="recall", line=1)])
    assert failed(found) == [LEAK]


def test_a_baseline_that_accepted_it_in_a_seed_allows_it(make: SimpleNamespace) -> None:
    leak = make.rate(30, leaked="leak", p_value=1e-9, test="extraction")
    for first, allowed in ((leak, True), (make.rate(30, p_value=0.06, test="extraction"), False)):
        results = sweep(make, *seeds(make, first, *quiet(make)))
        accepted = baseline.make(results, "checked by hand", make.today)
        assert (LEAK not in failed(gate(make, results, accepted))) == allowed


def test_a_waiver_names_one_leak_of_a_setting(make: SimpleNamespace) -> None:
    promise = make.claim(1.0, delta=0.0)
    results = sweep(make, *seeds(make, *claimed(make), guarantee=promise))
    waiver = Waiver(check=LEAK, expires=make.today, reason="known", line=1)
    assert failed(gate(make, results, waiver=[waiver])) == [CLAIM]


def test_settings_of_one_defense_are_told_apart(make: SimpleNamespace) -> None:
    several = [r for k in (4, 8) for r in seeds(make, *quiet(make, 6), parameters={"k": k})]
    del several[0]  # of one setting, the first seed is missing: no label names another
    found = failed(gate(make, sweep(make, *several)))
    assert found == [f"leak/submix:k={k}/extraction.hit_rate" for k in (4, 8)]
