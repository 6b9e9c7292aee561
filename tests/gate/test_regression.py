"""Against the baseline: nothing gone, nothing worse, and only like compared with like."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.terms import Leaked
from audit.findings import bets
from audit.gate import baseline, verdict
from audit.gate.measure_changes import pairs
from audit.gate.outcome import Check, Outcome, State
from audit.gate.policy import Policy, Regression
from audit.plan.plan import Plan
from audit.plan.resolve import resolve_on
from audit.results.schema import FindingResult, ReleaseResult, Results
from audit.results.words import WEALTH
from audit.statistics.interval import IntervalKind
from tests.gate import make
from tests.gate.make import LOST

FAIL, PASS, OPEN, SKIPPED = State.FAIL, State.PASS, State.INCONCLUSIVE, State.SKIPPED


def held(before: Results, after: Results, **regression: Any) -> Outcome:
    policy = Policy(empirical=False, regression=Regression(**regression))
    return verdict(after, policy, baseline.make(before, "first", make.TODAY), make.TODAY)


def states(outcome: Outcome) -> dict[str, State]:
    return {check.id: check.state for check in outcome.checks}


def check(outcome: Outcome, name: str) -> Check:
    (found,) = (c for c in outcome.checks if c.id == name)
    return found


def run(*found: FindingResult, **changes: Any) -> Results:
    """A run of one release."""
    results: Results = make.run(make.release("a", *found, **changes))
    return results


def rates(*counts: int, n: int = 100) -> Results:
    """Metrics m0, m1, … of so many hits."""
    return run(*(make.rate(k, n, f"m{i}") for i, k in enumerate(counts)))


def largest(value: float, **changes: Any) -> Results:
    name = {"attack": "exposure", "metric": "largest_exposure_1_copy", "leaked": "inconclusive"}
    shown = {"value": value, "ci": (value, value), "k": None, "unit": "bits", **changes}
    return run(make.rate(0, **name).model_copy(update=shown))


RATE, RECALL = make.rate(2), make.rate(1, metric="recall")
HIT, GONE, CLAIM = (f"regression/a/{what}" for what in ("extraction.hit_rate", "extraction.recall",
                                                        "claim"))  # fmt: skip
BIG = "leak/a/exposure.largest_exposure_1_copy"
RELEASES = [make.release("a", RATE, RECALL), make.release("b")]
FOUR = [make.rate(0, 4, name) for name in "abcdef"]  # none of 4, then all: p = 1/70
ONE_RANK = make.rate(0, 1, "exposure_1_copy", unit="bits", ci=None).model_copy(
    update={"k": None, "value": 2.0}
)
OF_A = run(RATE)
TABLE: list[tuple[Results, Results, dict[str, Any], State, dict[str, State | None]]] = [
    # before, now, the rule; the state, and checks; None: there is no such check
    (run(RATE, RECALL), run(RATE, RECALL), {}, PASS, {HIT: PASS, CLAIM: PASS}),
    (OF_A, run(make.rate(14)), {}, FAIL, {HIT: FAIL}),
    (run(make.rate(14)), OF_A, {}, PASS, {HIT: PASS}),
    # rates of sessions that may stop are compared by their intervals
    *((run(make.stopped(before)), run(make.stopped(now)), {}, state, {HIT: state})
      for before, now, state in ((0, 0, PASS), (5, 5, PASS), (0, 4, PASS), (0, 30, FAIL))),
    # Holm counts all gated metrics: 9 of 100 after 2 has p = 0.029, a rise by itself
    (rates(2, 2, 2, 2), rates(2, 9, 2, 2), {}, PASS, {}),
    (rates(2, 2, 2, 2), rates(2, 9, 2, 2), {"metrics": ("extraction.m1",)}, FAIL, {}),
    (rates(2, 2, 2, 2), rates(2, 9, 2, 2), {"metrics": ("extraction.m2",)}, PASS, {}),
    # a rise may be too small to fail
    *((rates(100, n=10_000), rates(200, n=10_000), {"min_delta": least}, state, {})
      for least, state in ((0.0, FAIL), (0.005, FAIL), (0.02, PASS))),
    # what is gone fails; other parameters are another release
    (make.run(*RELEASES), make.run(make.release("a", RATE, make.rate(None, metric="recall")),
                                   RELEASES[1]), {}, FAIL, {GONE: FAIL}),
    (make.run(*RELEASES), make.run(RELEASES[0]), {}, FAIL, {"regression/b": FAIL}),
    (make.run(*RELEASES), make.run(RELEASES[0], make.release("b", parameters={"k": 4})), {}, FAIL,
     {}),
    # what is new is not held to anything yet
    (OF_A, make.run(make.release("a", RATE, make.rate(99, metric="recall")), RELEASES[1]), {}, OPEN,
     {GONE: OPEN, "regression/b": OPEN}),
    # an extreme is not compared between runs, and leaks all the same
    (largest(3.0), largest(19.93), {}, PASS, {"regression/" + BIG[5:]: None}),
    (largest(3.0), largest(19.93, leaked=Leaked.LEAK), {}, FAIL, {BIG: FAIL}),
    # too few trials decide nothing
    (run(make.rate(0, 2)), run(make.rate(0, 2)), {}, OPEN, {HIT: OPEN}),
    (run(*FOUR), run(*FOUR), {}, OPEN, {}),
    (run(*FOUR), run(*FOUR), {"metrics": ("extraction.a",)}, PASS, {}),
    (run(ONE_RANK), run(ONE_RANK), {}, OPEN, {}),
    # nor does a run that was not trained on what was planted, unless it leaks more all the same
    *((run(make.rate(2, untrained=before)), run(make.rate(now, untrained=after)), {}, state,
       {HIT: state})
      for before, now, after, state in ((LOST, 2, "", OPEN), ("", 2, LOST, OPEN),
                                        (LOST, 2, LOST, OPEN), ("", 50, LOST, FAIL))),
    (run(make.rate(100, 10_000)), run(make.rate(200, 10_000, untrained=LOST)), {"min_delta": 0.02},
     OPEN, {HIT: OPEN}),
    # 50 % is no decrease from an AUC of 0.9
    (run(make.rate(90, unit="AUC")), run(make.rate(50)), {}, OPEN, {HIT: OPEN}),
    # a weaker or another claim
    *((OF_A, run(RATE, guarantee=make.claim(**claim)), {}, FAIL, {CLAIM: FAIL})
      for claim in ({"epsilon": 2.1}, {"epsilon": None}, {"unit": "record"},
                    {"relation": "replace"}, {"basis": "data-dependent"}, {"delta": 1e-4})),
    (OF_A, run(RATE, guarantee=make.claim(1.0)), {}, PASS, {CLAIM: PASS}),
]  # fmt: skip


def test_runs_are_held_to_the_baseline() -> None:
    wrong = []
    for i, (before, after, rule, state, expected) in enumerate(TABLE):
        outcome = held(before, after, **rule)
        seen = states(outcome)
        unlike = any(seen.get(name) != one for name, one in expected.items())
        if outcome.state != state or unlike or (outcome.exit_code == 1) != (state == FAIL):
            wrong.append(f"row {i}: {state}, {expected} is not {outcome.state}, {seen}")
    assert not wrong, "\n".join(wrong)


def test_counts_and_reach_of_a_comparison_are_shown() -> None:
    """What passes names the rise that would have been seen, more than of a fixed number."""
    risen = check(held(OF_A, run(make.rate(14))), HIT)
    assert "2 of 100 before, 14 of 100 now" in risen.sentence
    small = held(rates(100, n=10_000), rates(200, n=10_000), min_delta=0.02).checks[-1]
    assert small.sentence.startswith("increased, which min_delta = 0.02 allows: ")
    for k in (0, 5):
        fixed, may_stop = (
            re.search(r"([0-9.]+) would have been detected", check(held(one, one), HIT).sentence)
            for one in (run(make.rate(k)), run(make.stopped(k)))
        )
        assert fixed and may_stop and float(fixed[1]) < float(may_stop[1]) < 0.3


# leaks that the baseline accepted

LEAK = "leak/a/extraction.hit_rate"


def leaky(*metrics: str, k: int = 40, **changes: Any) -> Results:
    """A run in which these metrics leak, and recall does not unless it is one of them."""
    found = [make.rate(k, metric=name, leaked="leak", p_value=1e-9) for name in metrics]
    return run(*found, *([] if "recall" in metrics else [RECALL]), **changes)


def test_leak_accepted_by_name_is_only_compared() -> None:
    before = leaky("hit_rate")
    outcome = held(before, before)
    accepted = check(outcome, LEAK)
    assert (accepted.state, outcome.state) == (SKIPPED, PASS)
    assert "the baseline allows by name" in accepted.sentence
    worse = held(before, leaky("hit_rate", k=70))
    assert states(worse)[LEAK] == SKIPPED and worse.state == FAIL


def test_every_other_leak_fails() -> None:
    before = leaky("hit_rate")
    second = states(held(before, leaky("hit_rate", "recall")))
    assert (second[LEAK], second["leak/a/extraction.recall"]) == (SKIPPED, FAIL)
    calm = run(make.rate(40, leaked="inconclusive"))
    assert states(held(calm, before))[LEAK] == FAIL  # the same value, now a leak
    for other in ({"parameters": {"k": 4}}, {"seed": 1}):
        found = states(held(before, leaky("hit_rate", **other)))
        assert FAIL in {s for name, s in found.items() if name.startswith("leak/")}


def test_leak_left_out_of_the_regression_may_not_grow() -> None:
    before = leaky("hit_rate", "recall")
    for change, state in ((-1, SKIPPED), (0, SKIPPED), (1, FAIL)):  # nobody would see it grow
        other = leaky("hit_rate", "recall", k=40 + change)
        assert states(held(before, other, metrics=("extraction.recall",)))[LEAK] == state
    found = states(held(run(RATE, RECALL), before, metrics=("extraction.verbatim",)))
    assert found[LEAK] == FAIL


def test_references_are_never_compared() -> None:
    def with_reference(*more: ReleaseResult) -> Results:
        results: Results = make.run(make.release("a", RATE), *more)
        return results

    few, many = (with_reference(make.release("none", make.rate(k), reference=True))
                 for k in (0, 90))  # fmt: skip
    assert not any("none" in name for name in states(held(few, many)))
    kept = baseline.make(few, "x", make.TODAY).releases
    assert [entry.defense for entry in kept] == ["a"]
    assert held(few, with_reference()).state == PASS


# another plan


def changed(k: int, **changes: Any) -> Outcome:
    """k hits after 2, of a run whose plan or corpus differs."""
    plan = {**OF_A.plan, "hash": "other", **changes.pop("plan", {})}
    after = make.run(make.release("a", make.rate(k)), plan=plan)
    corpus = OF_A.corpus.model_copy(update=changes)
    return held(OF_A, after.model_copy(update={"corpus": corpus}))


def test_changed_corpus_secret_or_plan_never_passes() -> None:
    attack = {"name": "extraction", "parameters": {"generations": 9}}
    changes: Sequence[tuple[dict[str, Any], str]] = [
        ({"sha256": "cd34"}, "corpus"),
        ({"twins": 60, "trained_users": 60}, "corpus"),
        ({"plan": {"planting": {"users": 119}}}, "planting"),
        ({"plan": {"seed": 1}}, "seed"),
        ({"plan": {"something": "new"}}, "something"),
        ({"plan": {"attacks": [attack]}}, "attack extraction"),
    ]
    for change, named in changes:
        outcome = changed(2, **change)
        plan = next(c for c in outcome.checks if c.rule == "plan")
        assert outcome.state == plan.state == states(outcome)[HIT] == OPEN, named
        assert named in plan.sentence
        assert changed(40, **change).state == FAIL  # a rise is a rise


def test_increase_below_min_delta_of_another_plan_does_not_pass() -> None:
    before, after = rates(100, n=10_000), rates(200, n=10_000)
    other = after.model_copy(update={"plan": {**after.plan, "seed": 1}})
    for now, state in ((after, PASS), (other, OPEN)):
        assert held(before, now, min_delta=0.02).checks[-1].state == state


def test_another_defense_or_attack_beside_changes_nothing() -> None:
    attacks = [
        {"name": "exposure", "parameters": {}},
        {"name": "extraction", "parameters": {"generations": 100}},
    ]
    assert changed(2, plan={"attacks": attacks, "defenses": [{"name": "a"}]}).state == PASS


def planned(**settings: Any) -> Plan:
    users = [Record(f"u{i}", f"text {i}", None, "private") for i in range(20)]
    corpus = Corpus("own", (*users, Record("h", "held out", None, "heldout")))
    model = ModelFolder("tiny", Path("/somewhere/tiny"), "f" * 64, 1000, 50, 64)
    given = {"defense": ("redaction",), "attack": ("extraction",), "device": "cpu", **settings}
    return resolve_on(given, corpus, model)


def as_stored(plan: Plan) -> dict[str, Any]:
    """As results.json holds it, but for its defenses: the releases here are of none of them."""
    document = {**plan.document, "defenses": [], "hash": plan.hash}
    stored: dict[str, Any] = json.loads(json.dumps(document))
    return stored


def test_changed_real_plan_asks_for_an_update() -> None:
    """Where the baseline accepted a leak, too."""
    plain = planned()
    for settings, named in (
        ({"delta": 1e-7}, "delta"),
        ({"seed": 1}, "seed"),
        ({"training": {"epochs": 5}}, "training"),
        ({"planting": {"code_template": "My PIN is {value}, please."}}, "planting"),
        ({"planting": {"name_template": "Ask for {value}."}}, "planting"),
        ({"attack": ("extraction:generations=9",)}, "attack extraction"),
    ):
        other = planned(**settings)
        assert plain.hash != other.hash
        for leaks in ((), ("hit_rate",)):
            before, after = (
                leaky(*leaks).model_copy(update={"plan": as_stored(p)}) for p in (plain, other)
            )
            assert held(before, before).state == PASS
            outcome = held(before, after)
            assert outcome.state == (FAIL if leaks else OPEN)
            found = states(outcome)
            assert found.get(LEAK) == (FAIL if leaks else None)  # accepted of another plan
            (plan,) = (c for c in outcome.checks if c.rule == "plan")
            assert ("accepts are not accepted here" in plan.sentence) == bool(leaks)
            assert f"differs from the baseline: {named};" in plan.sentence
            measured = {s for i, s in found.items() if i.startswith("regression/a/extraction")}
            assert measured == {OPEN}


@pytest.mark.parametrize("pattern", ["extraction.hit_rat", "nothing"])
def test_pattern_without_a_metric_fails(pattern: str) -> None:
    outcome = held(OF_A, OF_A, metrics=("extraction.hit_rate", pattern))
    found = check(outcome, f"regression/{pattern}")
    assert found.state == FAIL and "extraction.hit_rate" in found.sentence


def in_lots(auc: float, wealth: float | None) -> Results:
    """Results of an audit in ten lots, by a measure and by bets: stopped if these won."""
    asked = 3 if wealth else 10
    sizes = (10,) * asked + (0,) * (10 - asked)
    seen = {"value": auc, "ci": (auc - 0.01, auc + 0.01), "n": 10 * asked, "k": None}
    stopped = {"p_value": None, "adjusted_p": None, "untested": bets.STOPPED} if wealth else {}
    other = make.rate(0, metric="record_loss_auc", unit="AUC", leaked="inconclusive")
    p = 2 / (wealth or 2.0)
    own: dict[str, Any] = {
        "unit": WEALTH,
        "leaked": "leak" if wealth else "inconclusive",
        "adjusted_p": p,
    }
    won = make.rate(0, metric="record_loss_bets", p_value=p / 2, **own)
    kept = {"value": wealth or 1.0, "ci": None, "sizes": sizes, "n": 10 * asked, "k": None}
    none = {"kind": IntervalKind.NONE, "method": "one value"}
    found = other.model_copy(update={**seen, **stopped}), won.model_copy(update={**kept, **none})
    results = run(*found)
    return results.model_copy(update={"plan": {**results.plan, "lots": 10}})


def test_stopped_audit_is_not_compared_and_is_no_baseline() -> None:
    """People whose number followed from their coins overstate a leak: that is no increase."""
    after = held(in_lots(0.6, None), in_lots(0.9, 120.0))
    found = states(after)
    assert found["regression/a/extraction.record_loss_auc"] == OPEN
    assert not any(name.startswith("regression") and "bets" in name for name in found)
    assert found["leak/a/extraction.record_loss_bets"] == FAIL and after.state == FAIL
    with pytest.raises(UsageError, match="a baseline needs all of them"):
        baseline.make(in_lots(0.9, 120.0), "first", make.TODAY)
    told = held(in_lots(0.6, None), in_lots(0.9, None))
    assert states(told)["regression/a/extraction.record_loss_auc"] == FAIL  # of all people


def test_stopped_audits_are_not_told_apart() -> None:
    before, after = in_lots(0.6, None), in_lots(0.9, 120.0)
    (both,) = zip(before.releases, after.releases, strict=True)
    assert {pair.p for pair in pairs([("a", *both)], alike=True)} == {None}
