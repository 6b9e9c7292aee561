"""The settings of a sweep: what all seeds show together fails, where each alone shows nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy

from audit.gate import baseline, verdict
from audit.gate.outcome import Check, Outcome, State
from audit.gate.policy import Limit, Policy, Waiver
from audit.results.badge import Badge, of_results
from audit.results.joined import GREY, LEVEL
from audit.results.schema import FindingResult, ReleaseResult, Results, SweepResult
from audit.run.sweep.over_seeds import cells
from audit.statistics.one_run import epsilon_lower, p_value
from reports import sarif
from tests import by_hand
from tests.gate import make

LEAK = "leak/submix/extraction.hit_rate"
CLAIM = "empirical/submix"


def sweep(*releases: ReleaseResult) -> Results:
    joined = SweepResult(seeds=[], cells=cells(releases))
    results: Results = make.run(*releases, sweep=joined)
    return results


def seeds(*found: FindingResult, **changes: Any) -> list[ReleaseResult]:
    """One setting, one seed for each of these findings."""
    adjusted = {"tests": 1, "claim_tests": 1, **changes}
    return [make.release("submix", f, seed=i, **adjusted) for i, f in enumerate(found)]


def quiet(count: int = 5, **changes: Any) -> list[FindingResult]:
    """Seeds that find no leak alone (p = 0.06), and one together (p = 0.002)."""
    return [make.rate(2, p_value=0.06, test="extraction", **changes) for _ in range(count)]


def claimed() -> list[FindingResult]:
    """Seeds that refute ε = 1 together, and not alone."""
    right, evidence = 48, {"m": 60, "guesses": [(60, 48)], "delta": 0.0}
    assert p_value(1.0, 60, 60, right, 0.0) > 0.05
    bound = make.bound(epsilon_lower(60, 60, right, 0.0), **evidence)
    found = {"epsilon_lower": bound, "claim": "not refuted", "claim_sentence": "It holds."}
    return quiet(**found)


def gate(results: Results, accepted: Any = None, **policy: Any) -> Outcome:
    outcome: Outcome = verdict(results, Policy(**policy), accepted, make.TODAY)
    return outcome


def failed(outcome: Outcome) -> list[str]:
    return [check.id for check in outcome.checks if check.state == State.FAIL]


PROMISE = make.claim(1.0, delta=0.0)


def check(outcome: Outcome, name: str) -> Check:
    (found,) = (c for c in outcome.checks if c.id == name)
    return found


def test_leak_and_refutation_by_all_seeds_fail() -> None:
    """The gate passed: no seed shows it alone."""
    results = sweep(*seeds(*claimed(), guarantee=PROMISE))
    assert results.sweep is not None
    (cell,) = results.sweep.cells
    assert (cell.leaked, cell.claim) == ("leak", "refuted")
    assert {(r.leaked, r.claim) for r in results.releases} == {("no leak found", "not refuted")}
    outcome = gate(results)
    assert (set(failed(outcome)), outcome.exit_code) == ({LEAK, CLAIM}, 1)
    assert check(outcome, LEAK).sentence.startswith("all 5 seeds together: a leak (0.02 [")
    assert LEAK in sarif.render(outcome)
    claim = check(outcome, CLAIM).sentence
    assert claim.startswith("all 5 seeds together: claimed: ε = 1 nats")
    assert "refuted by extraction.hit_rate" in claim
    assert failed(gate(results, empirical=False)) == [LEAK]
    waiver = Waiver(check=LEAK, expires=make.TODAY, reason="known", line=1)
    assert failed(gate(results, waiver=[waiver])) == [CLAIM]


@pytest.mark.parametrize("reference", [True, False])
def test_nothing_else_of_a_setting_is_checked(reference: bool) -> None:
    """Silence, doubt, and a leak of a reference or of a single seed have their checks, or none."""
    calm = seeds(make.rate(0), make.rate(0, leaked="inconclusive"))
    loud = [make.release("none", f, seed=i, reference=True) for i, f in enumerate(quiet())]
    results = sweep(*calm, *(loud if reference else []))
    bare = results.model_copy(update={"sweep": None})
    assert gate(results) == gate(bare)
    alone = sweep(*seeds(make.rate(40, leaked="leak", p_value=1e-9)))
    assert gate(alone) == gate(alone.model_copy(update={"sweep": None}))
    beyond = seeds(*quiet(stronger_than_release=True))
    assert failed(gate(sweep(*beyond))) == []


def test_what_only_all_seeds_leave_open_is_inconclusive() -> None:
    """The gate passed, while page one and the badge said that it is not a pass."""
    results = by_hand.silent_seeds(6)
    outcome = gate(results)
    (open_,) = [c for c in outcome.checks if c.state == State.INCONCLUSIVE]
    assert open_.id == "leak/redaction/extraction.hit_rate"
    assert open_.sentence.startswith("all 6 seeds together: neither a leak nor its absence")
    assert (outcome.state, of_results(results)) == (State.INCONCLUSIVE, Badge.INCONCLUSIVE)
    held = gate(results, limit=[Limit(0.2, metric="recall", line=1)])
    assert not [c for c in held.checks if c.rule == "leak"]  # as of releases: none is asked for


def test_a_limit_allows_a_leak_of_a_setting_by_name() -> None:
    results = sweep(*seeds(*quiet()))
    assert failed(gate(results, limit=[Limit(0.2, metric="hit_rate")])) == []
    for metric in ("*", "recall"):
        assert LEAK in failed(gate(results, limit=[Limit(0.2, metric=metric)]))
    one_of_two = [
        release.model_copy(update={"findings": [*release.findings, other]})
        for release in results.releases
        for other in quiet(1, metric="recall")
    ]
    found = gate(sweep(*one_of_two), limit=[Limit(0.2, metric="recall", line=1)])
    assert failed(found) == [LEAK]


def test_a_baseline_that_accepted_it_in_a_seed_allows_it() -> None:
    leak = make.rate(30, leaked="leak", p_value=1e-9, test="extraction")
    for first, allowed in ((leak, True), (make.rate(30, p_value=0.06, test="extraction"), False)):
        results = sweep(*seeds(first, *quiet()))
        accepted = baseline.make(results, "checked by hand", make.TODAY)
        assert (LEAK not in failed(gate(results, accepted))) == allowed


def test_settings_of_one_defense_are_told_apart() -> None:
    several = [r for k in (4, 8) for r in seeds(*quiet(6), parameters={"k": k})]
    del several[0]  # of one setting, the first seed is missing: no label names another
    found = failed(gate(sweep(*several)))
    assert found == [f"leak/submix:k={k}/extraction.hit_rate" for k in (4, 8)]


def drawn(p: float, **changes: Any) -> FindingResult:
    """A finding whose only test has this p-value, and the word that follows."""
    word = "leak" if p <= LEVEL else "inconclusive" if p <= GREY else "no leak found"
    found: FindingResult = make.rate(2, p_value=p, test="extraction", leaked=word, **changes)
    return found


def grid(settings: Sequence[Sequence[float]], **changes: Any) -> Results:
    """A sweep of one setting for each row of p-values, one a seed."""
    releases = [
        one
        for k, row in enumerate(settings)
        for one in seeds(*[drawn(p) for p in row], parameters={"k": k})
    ]
    return sweep(*releases).changed(**changes)


QUIET, MANIFEST = [0.9, 0.8, 0.7], {"plan": {"hash": "a", "planting": None, "attacks": []}}


@pytest.mark.parametrize(
    ("settings", "changes", "state", "said"),
    [
        # 2 × min(Fisher's 0.15, 3 × 0.02) is 0.12
        ([[0.02, 0.6, 0.7]], {}, State.INCONCLUSIVE, "leak in 1 of 3 seeds, not confirmed by the"),
        ([[0.1, 0.6, 0.7]], {}, State.INCONCLUSIVE, "neither a leak nor its absence is shown"),
        ([[0.02, 0.04, 0.7]], {}, State.FAIL, "a leak (0.02"),  # Fisher's 0.021, twice
        ([[0.008, 0.6, 0.7]], {}, State.FAIL, "a leak (0.02"),  # 2 × 3 × 0.008 = 0.048
        ([[0.008, 0.6, 0.7], QUIET], {}, State.INCONCLUSIVE, "leak in 1 of 3 seeds"),  # 0.096
        ([[0.015, 0.6, 0.7]], {}, State.INCONCLUSIVE, "leak in 1 of 3 seeds"),
        ([[0.015, 0.6, 0.7]], MANIFEST, State.FAIL, "a leak (0.02"),  # 3 × 0.015, no Fisher
        ([[0.02, 0.04, 0.7]], MANIFEST, State.INCONCLUSIVE, "leak in 2 of 3 seeds"),  # 0.06
        ([[0.004], *[[0.9]] * 8], {}, State.FAIL, "a leak (0.02"),  # 9 × 0.004
        ([[0.006], *[[0.9]] * 8], {}, State.INCONCLUSIVE, "by the other settings"),
        ([QUIET], {}, State.PASS, "not told apart from chance"),
    ],
)
def test_leak_of_a_seed_needs_its_setting(
    settings: Sequence[Sequence[float]], changes: dict[str, Any], state: State, said: str
) -> None:
    outcome = gate(grid(settings, **changes), leaks=True, empirical=False)
    assert outcome.state == state
    assert any(c.state == state and said in c.sentence for c in outcome.checks)


def test_setting_or_seed_that_is_missing_fails() -> None:
    planned = [{"name": "submix", "parameters": {"k": k}, "reference": False} for k in (0, 1)]
    plan = {"hash": "a", "attacks": [], "seeds": [0, 1, 2], "defenses": planned}
    whole = grid([QUIET, QUIET], plan=plan)
    assert failed(gate(whole)) == []
    for found in (grid([QUIET], plan=plan), grid([QUIET, QUIET[:2]], plan=plan)):
        assert failed(gate(found)) == ["plan/submix"]
    other = grid([QUIET, QUIET], plan={**plan, "seeds": [0, 1, 3]})  # 2 is in the place of 3
    assert set(failed(gate(other))) == {"plan/submix"}


def test_planned_release_that_is_missing_or_called_a_reference_fails() -> None:
    plan = {**make.run().plan, "defenses": [{"name": "a", "parameters": {"k": 8}}]}
    for role, found in (({}, []), ({"reference": True}, ["plan/a"])):
        assert failed(gate(make.run(make.release("a", make.rate(0), **role), plan=plan))) == found
    assert failed(gate(make.run(make.release("b", make.rate(0)), plan=plan))) == ["plan/a"]


@pytest.mark.calibration
def test_null_sweeps_rarely_fail_the_gate() -> None:
    """9 settings of 3 seeds, each seed's least adjusted p uniform: the most that a null allows."""
    generator, times = np.random.default_rng(11), 500
    failures = alone = 0
    for p in generator.random((times, 9, 3)):
        outcome = gate(grid(p.tolist()), empirical=False)
        failures += outcome.state == State.FAIL
        alone += bool((p <= LEVEL).any())
    print(f"gate {failures}, each release by itself {alone}, of {times}")
    assert failures <= 0.05 * times + 3 * math.sqrt(0.05 * 0.95 * times) < 0.1 * times
    assert alone > 0.7 * times


@pytest.mark.calibration
def test_sweeps_with_one_leaking_setting_fail() -> None:
    """Power: one of 9 settings has three seeds whose p-value is that of a shift of 3."""
    generator, times = np.random.default_rng(12), 300
    failures = 0
    for p in generator.random((times, 9, 3)):
        p[0] = scipy.stats.norm.sf(generator.normal(3.0, 1.0, 3))
        failures += gate(grid(p.tolist()), empirical=False).state == State.FAIL
    print(f"gate {failures} of {times}")
    assert failures >= 0.95 * times
