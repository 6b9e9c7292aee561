"""The rules that need no policy: what is a leak, what allows it, and when a claim falls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from audit.core.guarantee import Guarantee
from audit.core.terms import OnClaim
from audit.findings import bounds
from audit.findings.rejections import Family
from audit.findings.shows import Shows, not_shown
from audit.findings.verdict import judge
from audit.gate import verdict
from audit.gate.leaks import claim_check, leak_checks
from audit.gate.outcome import Check, Outcome, State
from audit.gate.policy import Limit, Policy
from audit.results.schema import (
    ChargeTest,
    FindingResult,
    GuaranteeResult,
    ReleaseResult,
    Silence,
)
from reports import junit
from tests.by_hand import SILENCE
from tests.findings import by_hand
from tests.findings.by_hand import by_holm
from tests.gate import make


def outcome(*releases: ReleaseResult, **policy: Any) -> Outcome:
    found: Outcome = verdict(make.run(*releases), Policy(**policy), None, make.TODAY)
    return found


def states(release: ReleaseResult, **policy: Any) -> dict[str, State]:
    return {check.id: check.state for check in outcome(release, **policy).checks}


LEAKY, QUIET = make.rate(5, leaked="leak"), make.rate(0, metric="recall")
BEYOND = make.rate(40, stronger_than_release=True)
BOUNDED = make.rate(None, leaked="leak", p_value=1e-9)
HIDDEN = make.rate(0, leaked="leak", p_value=1e-9)
CHARGES = make.rate(90, metric="charges").changed(
    charge_test=ChargeTest(queries=9, exceeded=0), leaked="not measured"
)
OTHER = make.rate(None, attack="exposure", metric="exposure_1_copy")
HIT_RATE, RECALL = "leak/x/extraction.hit_rate", "leak/x/extraction.recall"
BY_NAME, ALL = Limit(0.5, metric="hit_rate"), Limit(0.5)
Row = tuple[Sequence[FindingResult], dict[str, Any], dict[str, State | None]]
LIMITED = {"empirical": False, "limit": (BY_NAME,)}
RULES: list[Row] = [  # findings of x, the policy, and checks; None: there is no such check
    *(([make.rate(1, leaked=word, claim=claim)], {}, {HIT_RATE: state})
      for word, state in (("leak", State.FAIL), ("no leak found", State.PASS),
                          ("inconclusive", State.INCONCLUSIVE))
      for claim in OnClaim),  # whatever it says about the claim
    # what asks more than the release gives is no leak of it
    ([BEYOND], {}, {"leak/x/extraction": State.SKIPPED, HIT_RATE: None}),
    ([BEYOND, QUIET], {}, {RECALL: State.PASS, HIT_RATE: None}),
    # an attack that measured nothing is not silence, and a leak without a value is one
    ([make.rate(None)], {}, {"leak/x/extraction": State.INCONCLUSIVE}),
    ([make.rate(0), OTHER], {}, {HIT_RATE: State.PASS, "leak/x/exposure": State.INCONCLUSIVE}),
    ([BOUNDED], {}, {HIT_RATE: State.FAIL}),
    # only a limit that names the metric allows its leak
    *(([LEAKY, QUIET], {"limit": (limit,), "empirical": False, "leaks": leaks},
       {HIT_RATE: State.SKIPPED if allowed else State.FAIL})
      for leaks in (None, True)
      for limit, allowed in (
          (BY_NAME, True), (Limit(0.5, "x", "extraction", "hit_rate"), True),
          (Limit(0.5, "*", "extr*", "hit_rate"), True), (ALL, False),
          (Limit(0.5, metric="hit_rat?"), False), (Limit(0.5, metric="hit_*"), False),
          (Limit(0.5, metric="[h]it_rate"), False), (Limit(0.5, metric="recall"), False),
          (Limit(0.5, defense="y", metric="hit_rate"), False),
          (Limit(0.5, attack="exposure", metric="hit_rate"), False),
      )),
    # then the limit decides
    *(([LEAKY], {"limit": (Limit(most, metric="hit_rate"),), "empirical": False},
       {HIT_RATE: State.SKIPPED, "limit/x/extraction.hit_rate": state})
      for most, state in ((0.5, State.PASS), (0.05, State.INCONCLUSIVE), (0.01, State.FAIL))),
    # it allows no leak that it cannot measure, or that its figure hides: none of 100
    ([BOUNDED], LIMITED, {HIT_RATE: State.FAIL}),
    ([HIDDEN], LIMITED, {HIT_RATE: State.FAIL}),
    # a pattern limits leaks and no charges
    ([make.rate(0), CHARGES], {"limit": (ALL,), "empirical": False},
     {"limit/x/extraction.hit_rate": State.PASS, "limit/x/extraction.charges": None}),
    ([make.rate(0), CHARGES], {"limit": (Limit(0.5, metric="charges"),), "empirical": False},
     {"limit/x/extraction.charges": State.FAIL}),
    # beside a limit only leaks are checked, unless all are asked for
    ([make.rate(0), OTHER], {"limit": (BY_NAME,)}, {HIT_RATE: None, "leak/x/exposure": None}),
    ([make.rate(0), OTHER], {"limit": (BY_NAME,), "leaks": True}, {HIT_RATE: State.PASS}),
    # a leak fails beside any switch
    *(([LEAKY], {"confidence": 0.9, **policy}, {HIT_RATE: State.FAIL})
      for policy in ({}, {"leaks": True}, {"empirical": False})),
]  # fmt: skip


def test_leaks_are_checked_by_the_rules() -> None:
    wrong = []
    for found, policy, expected in RULES:
        seen = states(make.release("x", *found), **policy)
        if any(seen.get(name) != state for name, state in expected.items()):
            wrong.append(f"{policy}: {expected} is not in {seen}")
    assert not wrong, "\n".join(wrong)


def test_leak_names_what_is_known_and_what_allows_it() -> None:
    bounded = outcome(make.release("x", BOUNDED)).checks[0]
    assert bounded.sentence == "a leak (known within bounds only, p = 1e-09)"
    limit = Limit(0.5, metric="hit_rate", line=7)
    (allowed,) = (c for c in outcome(make.release("x", LEAKY), limit=(limit,)).checks
                  if c.id == HIT_RATE)  # fmt: skip
    assert "which the limit of line 7 allows by name" in allowed.sentence


def test_references_are_never_gated_and_others_always() -> None:
    leaky = make.release("none", make.rate(90, leaked="leak", claim="refuted"), reference=True)
    found = outcome(leaky)
    assert found.checks == ()
    assert (found.state, found.exit_code) == (State.INCONCLUSIVE, 0)  # nothing was gated
    defenses = ("none", "as_is", "redaction", "public", "dp_sgd")
    for defense, epsilon in product(defenses, (None, math.inf, 8.0)):
        leaky = make.release(defense, make.rate(90, leaked="leak"), guarantee=make.claim(epsilon))
        assert outcome(leaky).exit_code == 1, (defense, epsilon)


def test_one_leaking_user_breaks_a_limit_on_the_largest() -> None:
    """The median of the others passes the same limit."""
    bits = {"attack": "exposure", "unit": "bits", "sides": 2, "k": None, "n": 60}
    shown = {"value": 1.1, "ci": (0.7, 1.6), "leaked": "inconclusive"}
    median = make.rate(0, metric="exposure_1_copy").changed(**bits, **shown)
    name = {"metric": "largest_exposure_1_copy", "leaked": "leak"}
    release = make.release("x", median, median.changed(**name, value=19.93, ci=(19.93, 19.93)))
    limits = tuple(Limit(10.0, metric=m) for m in ("exposure_1_copy", "largest_exposure_1_copy"))
    found = states(release, limit=limits, empirical=False)
    assert found["limit/x/exposure.exposure_1_copy"] == State.PASS
    assert found["limit/x/exposure.largest_exposure_1_copy"] == State.FAIL
    alone = states(release, limit=limits[:1], empirical=False)
    assert alone["leak/x/exposure.largest_exposure_1_copy"] == State.FAIL


# the claim

R = 66  # guesses over 100 coins; if all are right, ε ≥ 3.06
PART = {"unit": "part", "relation": "removed", "alpha": 2.0, "basis": "data-dependent"}


def bound(v: int, delta: float = 1e-5) -> Any:
    """The bound that v right guesses of R give."""
    found = make.bound(0.0, delta=delta, m=100, guesses=[(R, v)])
    return found.changed(value=bounds.at_delta(found, delta))


def guessed(v: int = 40, metric: str = "hit_rate", **changes: Any) -> FindingResult:
    found: FindingResult = make.rate(0, metric=metric, epsilon_lower=bound(v), test=metric)
    return found.changed(**changes)


def answered(claim: Guarantee, *found: FindingResult, tests: int = 1) -> Check:
    """The check of a claim, after both answers were given to all findings."""
    family = Family(tests, tests)
    judged = judge(by_holm(found, claim, family), claim, Shows(), family)
    guarantee = GuaranteeResult.of(claim)
    release = make.release("dp_sgd", *judged, guarantee=guarantee, tests=tests, claim_tests=tests)
    return claim_check("dp_sgd", release)


def promise(epsilon: float | None = 2.0, **changes: Any) -> Guarantee:
    return by_hand.promise(epsilon, **{"delta": 1e-5, **changes})


FAIL, PASS, OPEN, SKIPPED = State.FAIL, State.PASS, State.INCONCLUSIVE, State.SKIPPED
LOST = {"untrained": "Lost."}
FEW = {"power": make.rate(0).power.model_copy(update={"largest_epsilon": 1.0}), "test": "few"}
INSIDE = {"stronger_than_release": True}
CLAIMS: list[tuple[Guarantee, Sequence[FindingResult], int, State, str]] = [
    # a claim falls once it is beyond doubt
    (promise(), [guessed(66)], 1, FAIL, "refuted by extraction.hit_rate"),
    (promise(), [guessed(63)], 1, FAIL, "refuted by extraction.hit_rate"),
    (promise(), [guessed(63)], 9, OPEN, "above the claim, but not significant once adjusted"),
    (promise(), [guessed(55)], 1, PASS, "not refuted"),
    (promise(), [guessed(33)], 1, PASS,
     "measured: at least 0, confidence 95% each; not refuted"),
    # it is tested at its own δ: the bound at the plan's δ = 1e-5 is no obstacle
    (promise(delta=0.0), [guessed(63)], 1, FAIL, "refuted"),
    (promise(delta=1e-4), [guessed(64)], 1, FAIL, "refuted"),
    (promise(delta=1e-3), [guessed(64)], 1, FAIL, "refuted"),
    (promise(delta=1e-3), [guessed(63)], 1, PASS, "measured: at least 1.945, "),
    (promise(delta=0.01), [guessed(66)], 1, OPEN,
     "no number of coins could refute the claimed ε = 2 at δ"),
    # bounds of another kind say nothing of it
    (promise(**PART), [guessed(R)], 1, SKIPPED, "Rényi"),
    (promise(unit="record"), [guessed(R)], 1, SKIPPED, "per record"),
    (promise(None), [guessed(R)], 1, SKIPPED, "no ε is claimed,"),
    (promise(math.inf), [guessed(R)], 1, SKIPPED, "no ε is claimed,"),
    # nobody measured it, or by what the release does not give
    (promise(), [make.rate(0)], 1, OPEN, "no attack of this run gives a bound on ε"),
    *((promise(), [guessed(v, **INSIDE)], 1, OPEN, "") for v in (40, R)),
    *((promise(), [guessed(v, **INSIDE), guessed(metric="recall")], 1, PASS, "")
      for v in (40, R)),
    # what the release gives decides why; what was not trained on is open, whatever its kind
    (promise(**PART), [guessed(), guessed(metric="probability", **INSIDE)], 1, SKIPPED, "Rényi"),
    (promise(**PART), [guessed(metric="probability", **INSIDE), guessed()], 1, SKIPPED, "Rényi"),
    (promise(**PART), [guessed(**INSIDE)], 1, OPEN, ""),
    (promise(**PART), [guessed(**LOST)], 1, OPEN, ""),
    # one finding that could refute it is enough
    (promise(), [guessed(**FEW), guessed(metric="recall")], 2, PASS, ""),
    (promise(), [guessed(**FEW), guessed(metric="recall", **LOST)], 2, OPEN, ""),
    (promise(), [guessed(**LOST)], 1, OPEN, ""),
    (promise(), [guessed(**LOST), guessed(metric="recall")], 2, PASS, ""),
    # others do not hide a refutation
    (promise(), [guessed(R), guessed(33, "recall")], 2, FAIL, "refuted by extraction.hit_rate"),
    (promise(), [guessed(33, "recall"), guessed(R)], 2, FAIL, "refuted by extraction.hit_rate"),
]  # fmt: skip


def test_claims_fall_stand_or_stay_open() -> None:
    wrong = []
    for i, (claim, found, tests, state, said) in enumerate(CLAIMS):
        check = answered(claim, *found, tests=tests)
        if check.state != state or said not in check.sentence:
            wrong.append(f"row {i}: {state} ({said}) is not {check.state}: {check.sentence}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("tests", [1, 4, 20])
def test_claim_that_nothing_could_refute_is_not_upheld(tests: int) -> None:
    """All R of R right refute ln(q/(1−q)), q^R = 0.05/tests, at δ = 0, and no more."""
    q = (0.05 / tests) ** (1 / R)
    most = math.log(q / (1 - q))
    power = make.rate(0).power.model_copy(update={"largest_epsilon": None})
    found = make.rate(0, epsilon_lower=bound(40, delta=0.0), power=power)
    for epsilon, state in ((most - 0.01, State.PASS), (most + 0.01, State.INCONCLUSIVE)):
        assert answered(promise(epsilon, delta=None), found, tests=tests).state == state


@pytest.mark.parametrize(
    ("test", "word", "state"),
    [
        (ChargeTest(queries=9, exceeded=0), "not refuted", State.PASS),
        (ChargeTest(queries=9, exceeded=1), "refuted", State.FAIL),
        (ChargeTest(queries=9, p_value=0.5), "not refuted", State.PASS),
        (ChargeTest(queries=0), "not testable", State.INCONCLUSIVE),
    ],
)
def test_ledger_is_checked_for_the_claim_alone(test: ChargeTest, word: str, state: State) -> None:
    """Nor is its silence about leaks held against the release by --strict."""
    finding = make.rate(None, attack="ledger", metric="charges", leaked="not measured", claim=word)
    finding = finding.model_copy(update={"charge_test": test})
    release = make.release("submix", make.rate(0, claim="not testable"), finding)
    assert [c.subject for c in leak_checks("", release, {}, True, Policy())] == [
        "extraction.hit_rate"
    ]
    check = claim_check("", release)
    assert check.state == state and "at least" not in check.sentence
    if word == "not refuted":
        assert "9 queries beside their charges (charges); not refuted" in check.sentence


def test_claim_is_checked_unless_switched_off() -> None:
    release = make.release("dp_sgd", guessed(R, claim="refuted"))
    assert states(release)["empirical/dp_sgd"] == State.FAIL
    assert "empirical/dp_sgd" not in states(release, empirical=False)


def unseen(**links: str) -> Silence:
    """Conditions of silence, of which some were not shown, with the reason."""
    return SILENCE.changed(**{name: not_shown(why) for name, why in links.items()})


REMOVED = unseen(contact="Removed before training: 0 of 343 planted codes are in the text.")


@pytest.mark.parametrize(
    ("word", "silence", "policy", "state", "said"),
    [
        ("inconclusive", unseen(contact="Not loaded."), {}, "INCONCLUSIVE", "; Not loaded"),
        ("inconclusive", unseen(sight="Blind.", reach="Few."), {}, "INCONCLUSIVE", "; Blind"),
        ("no leak found", unseen(reach="Few."), {}, "INCONCLUSIVE", "; Few"),
        ("no leak found", None, {}, "INCONCLUSIVE", "; its conditions were not examined"),
        ("not measured", REMOVED, {}, "INCONCLUSIVE", "not measured: Removed before training: 0 "),
        ("not measured", REMOVED, {"removed": "accept"}, "SKIPPED", "0 of 343 planted codes"),
    ],
)
def test_first_missing_condition_stands_in_the_line(
    word: str, silence: Silence | None, policy: dict[str, Any], state: str, said: str
) -> None:
    found = make.rate(None if word == "not measured" else 0, leaked=word, silence=silence)
    outcome = verdict(
        make.run(make.release("submix", found)), Policy(leaks=True, **policy), None, make.TODAY
    )
    (check,) = (c for c in outcome.checks if c.id == "leak/submix/extraction.hit_rate")
    assert check.state == state and said in check.sentence
    assert [c.id for c in outcome.checks if c.rule == "leak"] == [check.id]
    assert said in junit.render(outcome)
