"""Against the baseline: nothing gone, nothing worse, and only like compared with like."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from audit.core.corpus import Corpus, Record
from audit.core.model import ModelFolder
from audit.core.terms import Leaked
from audit.gate import baseline, verdict
from audit.gate.outcome import Outcome, State
from audit.gate.policy import Policy, Regression
from audit.plan.plan import Plan
from audit.plan.resolve import resolve_on
from audit.results.schema import Results
from tests.gate import make


def held(before: Results, after: Results, **regression: Any) -> Outcome:
    policy = Policy(empirical=False, regression=Regression(**regression))
    return verdict(after, policy, baseline.make(before, "first", make.TODAY), make.TODAY)


def states(outcome: Outcome) -> dict[str, State]:
    return {check.id: check.state for check in outcome.checks}


def test_the_same_run_passes() -> None:
    run = make.run(make.release("submix", make.rate(2), make.rate(1, 61, "recall")))
    outcome = held(run, run)
    assert set(states(outcome).values()) == {State.PASS}
    assert (outcome.state, outcome.exit_code) == (State.PASS, 0)
    assert not outcome.notes


def test_a_rise_fails_and_a_fall_does_not() -> None:
    low, high = (make.run(make.release("submix", make.rate(k))) for k in (2, 14))
    outcome = held(low, high)
    assert states(outcome)["regression/submix/extraction.hit_rate"] == State.FAIL
    assert outcome.exit_code == 1
    assert "2 of 100 before, 14 of 100 now" in outcome.checks[-1].sentence
    assert held(high, low).state == State.PASS


@pytest.mark.parametrize(
    ("before", "now", "state"),
    [(0, 0, State.PASS), (5, 5, State.PASS), (0, 4, State.PASS), (0, 30, State.FAIL)],
)
def test_rates_of_sessions_that_may_stop_are_compared_by_their_intervals(
    before: int, now: int, state: State
) -> None:
    """What passes names the rise that would have been seen, more than of a fixed number."""
    one, other = (make.run(make.release("submix", make.stopped(k))) for k in (before, now))
    outcome = held(one, other)
    assert states(outcome)["regression/submix/extraction.hit_rate"] == state
    if state == State.PASS and before == now:
        fixed = make.run(make.release("submix", make.rate(before)))
        assert seen_from(held(fixed, fixed)) < seen_from(outcome) < 0.3


def seen_from(outcome: Outcome) -> float:
    """The least value that a comparison would have called a rise."""
    found = re.search(r"([0-9.]+) would have been detected", outcome.checks[-1].sentence)
    assert found is not None
    return float(found[1])


# leaks that the baseline accepted

LEAK = "leak/submix/extraction.hit_rate"


def leaky(*metrics: str, k: int = 40, **changes: Any) -> Results:
    """A run in which these metrics leak, and recall does not unless it is one of them."""
    found = [make.rate(k, metric=name, leaked="leak", p_value=1e-9) for name in metrics]
    calm = [] if "recall" in metrics else [make.rate(1, metric="recall")]
    return make.run(make.release("submix", *found, *calm, **changes))  # type: ignore[no-any-return]


def test_a_leak_that_the_baseline_accepted_by_name_is_only_compared() -> None:
    run = leaky("hit_rate")
    outcome = held(run, run)
    assert states(outcome)[LEAK] == State.SKIPPED
    (check,) = (c for c in outcome.checks if c.id == LEAK)
    assert "a leak (0.4" in check.sentence and "the baseline allows by name" in check.sentence
    assert outcome.state == State.PASS
    worse = held(run, leaky("hit_rate", k=70))
    assert states(worse)[LEAK] == State.SKIPPED and worse.state == State.FAIL


def test_every_other_leak_fails() -> None:
    before = leaky("hit_rate")
    second = states(held(before, leaky("hit_rate", "recall")))
    assert second[LEAK] == State.SKIPPED
    assert second["leak/submix/extraction.recall"] == State.FAIL
    calm = make.run(make.release("submix", make.rate(40, leaked="inconclusive")))
    assert states(held(calm, before))[LEAK] == State.FAIL  # the same value, now a leak
    for other in ({"parameters": {"k": 4}}, {"seed": 1}):
        found = states(held(before, leaky("hit_rate", **other)))
        assert State.FAIL in {s for name, s in found.items() if name.startswith("leak/")}


def test_what_regression_leaves_out_is_still_accepted_or_not() -> None:
    run = leaky("hit_rate", "recall")
    found = states(held(run, run, metrics=("extraction.recall",)))
    assert found[LEAK] == State.SKIPPED
    for change, state in ((-1, State.SKIPPED), (1, State.FAIL)):  # nobody would see it grow
        other = leaky("hit_rate", "recall", k=40 + change)
        assert states(held(run, other, metrics=("extraction.recall",)))[LEAK] == state
    calm = make.run(make.release("submix", make.rate(2), make.rate(1, metric="recall")))
    found = states(held(calm, run, metrics=("extraction.verbatim",)))
    assert found[LEAK] == State.FAIL


def test_an_extreme_is_not_compared_between_runs() -> None:
    def run(value: float, **changes: Any) -> Results:
        name = {"attack": "exposure", "metric": "largest_exposure_1_copy"}
        found = make.rate(0, **name, leaked="inconclusive")
        shown = {"value": value, "ci": (value, value), "k": None, "unit": "bits", **changes}
        return make.run(make.release("submix", found.model_copy(update=shown)))  # type: ignore[no-any-return]

    found = states(held(run(3.0), run(19.93)))
    assert not any("largest" in name for name in found)
    found = states(held(run(3.0), run(19.93, leaked=Leaked.LEAK)))
    assert found["leak/submix/exposure.largest_exposure_1_copy"] == State.FAIL


def test_holm_counts_all_gated_metrics() -> None:
    """9 of 100 after 2 has p = 0.029: a rise by itself, none among four metrics."""
    names = ("hit_rate", "recall", "verbatim", "searched_rate")
    before = make.run(make.release("submix", *(make.rate(2, metric=name) for name in names)))
    after = make.run(
        make.release("submix", *(make.rate(9 if n == "recall" else 2, metric=n) for n in names))
    )
    assert held(before, after).state == State.PASS
    assert held(before, after, metrics=("extraction.recall",)).state == State.FAIL
    assert held(before, after, metrics=("extraction.verbatim",)).state == State.PASS


def test_a_rise_smaller_than_min_delta_passes() -> None:
    before, after = (make.run(make.release("x", make.rate(k, 10_000))) for k in (100, 200))
    assert held(before, after).state == State.FAIL
    assert held(before, after, min_delta=0.005).state == State.FAIL
    allowed = held(before, after, min_delta=0.02)
    assert allowed.state == State.PASS
    (check,) = (c for c in allowed.checks if c.id == "regression/x/extraction.hit_rate")
    assert check.sentence.startswith("increased, which min_delta = 0.02 allows: ")


def test_what_is_gone_fails() -> None:
    whole = make.run(
        make.release("a", make.rate(2), make.rate(1, metric="recall")), make.release("b")
    )
    one = make.run(
        make.release("a", make.rate(2), make.rate(None, metric="recall")), make.release("b")
    )
    assert states(held(whole, one))["regression/a/extraction.recall"] == State.FAIL
    assert states(held(whole, make.run(whole.releases[0])))["regression/b"] == State.FAIL
    other = make.run(whole.releases[0], make.release("b", parameters={"k": 4}))
    found = states(held(whole, other))
    assert found["regression/b"] in (State.FAIL, State.INCONCLUSIVE)
    assert held(whole, other).state == State.FAIL  # other parameters: another release


def test_what_is_new_is_not_held_to_anything_yet() -> None:
    before = make.run(make.release("a", make.rate(2)))
    after = make.run(
        make.release("a", make.rate(2), make.rate(99, metric="recall")), make.release("b")
    )
    found = states(held(before, after))
    assert found["regression/a/extraction.recall"] == State.INCONCLUSIVE
    assert found["regression/b"] == State.INCONCLUSIVE
    assert held(before, after).state == State.INCONCLUSIVE


def test_references_are_never_gated() -> None:
    def run(k: int) -> Results:
        reference = make.release("none", make.rate(k), reference=True)
        return make.run(make.release("a", make.rate(2)), reference)

    found = states(held(run(0), run(90)))
    assert not any("none" in name for name in found)
    assert not any(
        entry.defense == "none" for entry in baseline.make(run(0), "x", make.TODAY).releases
    )
    assert held(run(0), make.run(run(0).releases[0])).state == State.PASS


def changed(k: int, **changes: Any) -> Outcome:
    before = make.run(make.release("a", make.rate(2)))
    plan = {**before.plan, "hash": "other", **changes.pop("plan", {})}
    after = make.run(make.release("a", make.rate(k)), plan=plan)
    corpus = before.corpus.model_copy(update=changes)
    return held(before, after.model_copy(update={"corpus": corpus}))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sha256": "cd34"}, "corpus"),
        ({"twins": 60, "trained_users": 60}, "corpus"),
        ({"plan": {"planting": {"users": 119}}}, "planting"),
        ({"plan": {"seed": 1}}, "seed"),
        ({"plan": {"something": "new"}}, "something"),
        (
            {"plan": {"attacks": [{"name": "extraction", "parameters": {"generations": 9}}]}},
            "attack extraction",
        ),
    ],
)
def test_a_changed_corpus_secret_or_plan_never_passes(changes: dict[str, Any], named: str) -> None:
    outcome = changed(2, **changes)
    assert outcome.state == State.INCONCLUSIVE
    plan = next(check for check in outcome.checks if check.rule == "plan")
    assert plan.state == State.INCONCLUSIVE and named in plan.sentence
    assert states(outcome)["regression/a/extraction.hit_rate"] == State.INCONCLUSIVE
    assert changed(40, **changes).state == State.FAIL  # a rise is a rise


def planned(**settings: Any) -> Plan:
    users = [Record(f"u{i}", f"text {i}", None, "private") for i in range(20)]
    corpus = Corpus("own", (*users, Record("h", "held out", None, "heldout")))
    model = ModelFolder("tiny", Path("/somewhere/tiny"), "f" * 64, 1000, 50, 64)
    given = {"defense": ("redaction",), "attack": ("extraction",), "device": "cpu", **settings}
    return resolve_on(given, corpus, model)


def as_stored(plan: Plan) -> dict[str, Any]:
    """As results.json holds it."""
    stored: dict[str, Any] = json.loads(json.dumps({**plan.document, "hash": plan.hash}))
    return stored


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"delta": 1e-7}, "delta"),
        ({"seed": 1}, "seed"),
        ({"training": {"epochs": 5}}, "training"),
        ({"planting": {"code_template": "My PIN is {value}, please."}}, "planting"),
        ({"planting": {"name_template": "Ask for {value}."}}, "planting"),
        ({"attack": ("extraction:generations=9",)}, "attack extraction"),
    ],
)
def test_whatever_changes_a_real_plan_asks_for_an_update(
    settings: dict[str, Any], named: str
) -> None:
    """Where the baseline accepted a leak, too."""
    plans = planned(), planned(**settings)
    assert plans[0].hash != plans[1].hash
    for leaks in ((), ("hit_rate",)):
        before, after = (
            leaky(*leaks).model_copy(update={"plan": as_stored(plan)}) for plan in plans
        )
        assert held(before, before).state == State.PASS
        outcome = held(before, after)
        assert outcome.state == (State.FAIL if leaks else State.INCONCLUSIVE)
        found = states(outcome)
        assert found.get(LEAK) == (State.FAIL if leaks else None)  # accepted of another plan
        (plan,) = (c for c in outcome.checks if c.rule == "plan")
        assert ("accepts are not accepted here" in plan.sentence) == bool(leaks)
        measured = {s for i, s in found.items() if i.startswith("regression/submix/extraction")}
        assert measured == {State.INCONCLUSIVE}
        (plan,) = (check for check in outcome.checks if check.rule == "plan")
        assert f"differs from the baseline: {named};" in plan.sentence
        assert "`audit baseline update`" in plan.sentence


def test_another_defense_or_attack_beside_changes_nothing() -> None:
    attacks = [
        {"name": "exposure", "parameters": {}},
        {"name": "extraction", "parameters": {"generations": 100}},
    ]
    assert changed(2, plan={"attacks": attacks, "defenses": ["b"]}).state == State.PASS


@pytest.mark.parametrize(
    "claim",
    [{"epsilon": 2.1}, {"epsilon": None}, {"unit": "record"}, {"relation": "replace"},
     {"basis": "data-dependent"}, {"delta": 1e-4}],
)  # fmt: skip
def test_a_weaker_or_another_claim_fails(claim: dict[str, Any]) -> None:
    before = make.run(make.release("a", make.rate(2)))
    after = make.run(make.release("a", make.rate(2), guarantee=make.claim(**claim)))
    assert states(held(before, after))["regression/a/claim"] == State.FAIL
    smaller = make.run(make.release("a", make.rate(2), guarantee=make.claim(1.0)))
    assert held(before, smaller).state == State.PASS


def test_too_few_trials_decide_nothing() -> None:
    few = make.run(make.release("a", make.rate(0, 2)))
    assert held(few, few).state == State.INCONCLUSIVE
    names = ("a", "b", "c", "d", "e", "f")  # none of 4, then all: p = 1/70
    four = make.run(make.release("x", *(make.rate(0, 4, name) for name in names)))
    assert held(four, four).state == State.INCONCLUSIVE
    assert held(four, four, metrics=("extraction.a",)).state == State.PASS
    bits = make.rate(0, 1, "exposure_1_copy", unit="bits", ci=None)
    one = make.run(make.release("a", bits.model_copy(update={"k": None, "value": 2.0})))
    assert held(one, one).state == State.INCONCLUSIVE


@pytest.mark.parametrize(
    ("pattern", "near"),
    [("extraction.hit_rat", "extraction.hit_rate"), ("nothing", "extraction.hit_rate")],
)
def test_pattern_without_a_metric_fails(pattern: str, near: str) -> None:
    run = make.run(make.release("submix", make.rate(0), make.rate(0, metric="recall")))
    accepted = baseline.make(run, "why", make.TODAY)
    rule = Regression(metrics=("extraction.recall", pattern))
    outcome = verdict(run, Policy(regression=rule), accepted, make.TODAY)
    (check,) = (c for c in outcome.checks if c.id == f"regression/{pattern}")
    assert check.state == State.FAIL and near in check.sentence
