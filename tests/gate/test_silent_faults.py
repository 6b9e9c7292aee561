"""The catalogue of silent faults, its row of the gate: none of them lets a run pass.

A run that was interrupted or is empty is refused before it is judged: see test_commands.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from audit.findings.shows import not_shown
from audit.gate import baseline, verdict
from audit.gate.outcome import Outcome, State
from audit.gate.policy import Limit, Policy, Regression, Waiver
from audit.results.schema import Results
from tests.by_hand import SILENCE
from tests.gate import make

FINISHED = {"name": "out", "sha256": "aa"}


def of_model(results: Results, **finished: str) -> Results:
    """An audit of a model that was trained elsewhere."""
    plan = {**results.plan, "finished": {**FINISHED, **finished}}
    return results.model_copy(update={"plan": plan})


def leaky() -> Results:
    leak = make.rate(40, leaked="leak", p_value=1e-9)
    return of_model(make.run(make.release("as_is", leak, guarantee=make.claim(None))))


def silent(**links: str) -> Results:
    """A run without hits, of which these conditions of silence were not shown."""
    missing = {name: not_shown(why) for name, why in links.items()}
    word = "inconclusive" if links else "no leak found"
    found = make.rate(0, silence=SILENCE.changed(**missing), leaked=word)
    return of_model(make.run(make.release("as_is", found, guarantee=make.claim(None))))


def held(before: Results, after: Results, policy: Policy | None = None) -> Outcome:
    old = baseline.make(before, "accepted", make.TODAY)
    return verdict(after, policy or Policy(), old, make.TODAY)


def other_plan(results: Results, **changes: Any) -> Results:
    return results.model_copy(update={"plan": {**results.plan, **changes}})


def other_corpus(results: Results) -> Results:
    return results.model_copy(update={"corpus": results.corpus.changed(sha256="ff")})


def waived(check: str) -> Policy:
    return Policy(waiver=(Waiver(check, make.TODAY + timedelta(9), "known", 1),))


def judged(results: Results, policy: Policy) -> Outcome:
    return verdict(results, policy, None, make.TODAY)


LOADED = {"contact": "The audited model answers exactly as its base."}
NO_HIT = Limit(0.2)
FAULTS: dict[str, tuple[Outcome, State, str]] = {
    **{
        f"baseline of another {name}": (held(leaky(), after), State.FAIL, cause)
        for name, after, cause in (
            ("corpus", other_corpus(leaky()), "corpus"),
            ("seed", other_plan(leaky(), seed=1), "not accepted here"),
            ("training", other_plan(leaky(), training={"epochs": 9}), "training"),
            ("model", of_model(leaky(), sha256="bb"),
             "the model that was trained elsewhere is another one"),
        )
    },
    "no rise of a model that nothing reached": (
        held(silent(), silent(**LOADED)), State.INCONCLUSIVE, LOADED["contact"]
    ),
    "limit on a model that nothing reached": (
        judged(silent(**LOADED), Policy(limit=(NO_HIT,))), State.INCONCLUSIVE, LOADED["contact"]
    ),
    "limit on a measure that sees nothing": (
        judged(silent(sight="It is blind."), Policy(limit=(NO_HIT,))), State.INCONCLUSIVE,
        "It is blind",
    ),
    "limit without match": (
        judged(silent(), Policy(limit=(Limit(0.2, metric="hit_rat"),))), State.FAIL, "no finding"
    ),
    "regression without match": (
        held(silent(), silent(), Policy(regression=Regression(metrics=("hits*",)))), State.FAIL,
        "no metric matches",
    ),
    "waiver for another release": (
        judged(leaky(), waived("leak/dp_sgd/*")), State.FAIL, "waives nothing"
    ),
    "references only": (
        judged(make.run(make.release("none", make.rate(0), reference=True)), Policy()),
        State.INCONCLUSIVE, "nothing was checked",
    ),
    "no finding": (
        judged(make.run(make.release("as_is")), Policy(empirical=False)), State.INCONCLUSIVE,
        "nothing was checked",
    ),
}  # fmt: skip


def test_unharmed_runs_pass_or_are_accepted() -> None:
    assert judged(silent(), Policy(limit=(Limit(0.2),))).state == State.PASS
    assert held(silent(), of_model(silent(), sha256="bb")).state == State.PASS
    assert held(leaky(), of_model(leaky(), name="renamed")).state == State.PASS
    assert judged(leaky(), waived("leak/as_is/*")).state == State.PASS


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_never_passes_and_is_named(fault: str) -> None:
    outcome, state, cause = FAULTS[fault]
    assert outcome.state == state
    said = [outcome.headline, *outcome.notes, *(check.sentence for check in outcome.checks)]
    assert any(cause.rstrip(".") in line for line in said), said


def test_new_model_may_not_accept_leaks_of_the_old_one_when_tightened() -> None:
    old, same, new = (
        baseline.make(of_model(leaky(), sha256=digest), "x", make.TODAY)
        for digest in ("aa", "aa", "bb")
    )
    assert baseline.loosened(old, same) is None
    assert "would be accepted as a leak" in (baseline.loosened(old, new) or "")


def test_delta_that_permits_publishing_a_person_is_noted() -> None:
    """The run has 190 users."""
    for delta, notes in ((1 / 190, 1), (1 / 191, 0)):
        claim = make.claim(2.0, delta=delta)
        run = make.run(make.release("as_is", make.rate(0), guarantee=claim))
        noted = [note for note in judged(run, Policy()).notes if "not below 1/N" in note]
        assert len(noted) == notes


def test_removed_text_is_accepted_by_policy_alone() -> None:
    """Also where a value stands beside it, as of any attack that was run; never a grey one."""
    why = "Removed before training: 0 of 60 planted codes are in the text."
    missing = SILENCE.changed(contact=not_shown(why))
    gone = make.rate(0, silence=missing, leaked="not measured")
    grey = gone.changed(adjusted_p=0.1, leaked="inconclusive")
    for found, removed, state in (
        (gone, {"removed": "accept"}, State.SKIPPED),
        (gone, {}, State.INCONCLUSIVE),
        (grey, {"removed": "accept"}, State.INCONCLUSIVE),
    ):
        results = make.run(make.release("as_is", found, guarantee=make.claim(None)))
        checks = judged(results, Policy(leaks=True, **removed)).checks
        assert [check.state for check in checks if check.rule == "leak"] == [state]
