"""The rules that need no policy: what is a leak, what allows it, and when a claim falls."""

from __future__ import annotations

import math
from dataclasses import replace
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
from audit.gate.leaks import Rules, claim_check, leak_checks
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
from tests.findings.by_hand import by_holm
from tests.gate import make


def outcome(*releases: ReleaseResult, **policy: Any) -> Outcome:
    found: Outcome = verdict(make.run(*releases), Policy(**policy), None, make.TODAY)
    return found


def states(release: ReleaseResult, **policy: Any) -> dict[str, State]:
    return {check.id: check.state for check in outcome(release, **policy).checks}


# what is a leak


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("leak", State.FAIL),
        ("no leak found", State.PASS),
        ("inconclusive", State.INCONCLUSIVE),
    ],
)
@pytest.mark.parametrize("claim", OnClaim)
def test_what_leaked_decides_whatever_it_says_about_the_claim(
    word: str, state: State, claim: OnClaim
) -> None:
    found = states(make.release("submix", make.rate(1, leaked=word, claim=claim)))
    assert found["leak/submix/extraction.hit_rate"] == state


def test_what_asks_more_than_the_release_gives_is_no_leak_of_it() -> None:
    beyond = make.rate(40, stronger_than_release=True)
    found = states(make.release("submix", beyond))
    assert found["leak/submix/extraction"] == State.SKIPPED
    assert State.FAIL not in found.values()
    both = make.release("submix", beyond, make.rate(0, metric="recall"))
    assert states(both)["leak/submix/extraction.recall"] == State.PASS


def test_an_attack_that_measured_nothing_is_not_silence() -> None:
    found = outcome(make.release("x", make.rate(None)))
    assert found.checks[0].state == State.INCONCLUSIVE
    assert (found.state, found.exit_code) == (State.INCONCLUSIVE, 0)


def test_a_leak_without_a_value_fails_like_any_other() -> None:
    """Ranks known within bounds only have no median, and their test may be rejected."""
    bounded = make.rate(None, metric="exposure", leaked="leak", p_value=1e-9)
    found = outcome(make.release("x", bounded))
    assert (found.checks[0].state, found.exit_code) == (State.FAIL, 1)
    assert found.checks[0].sentence == "a leak (known within bounds only, p = 1e-09)"


def test_references_are_never_gated() -> None:
    leaky = make.release("none", make.rate(90, leaked="leak", claim="refuted"), reference=True)
    found = outcome(leaky)
    assert found.checks == ()
    assert found.state == State.INCONCLUSIVE  # nothing was gated: no reason to be calm


def test_every_other_release_is() -> None:
    defenses = ("none", "as_is", "redaction", "public", "dp_sgd")
    for defense, epsilon in product(defenses, (None, math.inf, 8.0)):
        leaky = make.release(defense, make.rate(90, leaked="leak"), guarantee=make.claim(epsilon))
        assert outcome(leaky).exit_code == 1, (defense, epsilon)


def test_each_attack_is_told_apart() -> None:
    other = make.rate(None, attack="exposure", metric="exposure_1_copy")
    checks = list(leak_checks("x", make.release("x", make.rate(0), other), {}, True, Rules()))
    assert [(c.subject, c.state) for c in checks] == [
        ("extraction.hit_rate", State.PASS),
        ("exposure", State.INCONCLUSIVE),
    ]


# what allows it

HIT_RATE = "leak/x/extraction.hit_rate"


LIMITS = [
    (Limit(0.5, metric="hit_rate"), True),
    (Limit(0.5, "x", "extraction", "hit_rate"), True),
    (Limit(0.5, "*", "extr*", "hit_rate"), True),
    (Limit(0.5), False),
    (Limit(0.5, metric="hit_rat?"), False),
    (Limit(0.5, metric="hit_*"), False),
    (Limit(0.5, metric="[h]it_rate"), False),
    (Limit(0.5, metric="recall"), False),
    (Limit(0.5, defense="y", metric="hit_rate"), False),
    (Limit(0.5, attack="exposure", metric="hit_rate"), False),
]


@pytest.mark.parametrize("leaks", [None, True])
def test_only_a_limit_that_names_the_metric_allows_its_leak(leaks: bool | None) -> None:
    leaky = make.release("x", make.rate(5, leaked="leak"), make.rate(0, metric="recall"))
    for limit, allowed in LIMITS:
        found = states(leaky, limit=(limit,), empirical=False, leaks=leaks)
        assert found[HIT_RATE] == (State.SKIPPED if allowed else State.FAIL), limit


@pytest.mark.parametrize(("most", "state"), [(0.5, State.PASS), (0.05, State.INCONCLUSIVE),
                                             (0.01, State.FAIL)])  # fmt: skip
def test_then_the_limit_decides(most: float, state: State) -> None:
    leaky = make.release("x", make.rate(5, leaked="leak"))
    limit = Limit(most, metric="hit_rate", line=7)
    found = outcome(leaky, limit=(limit,), empirical=False)
    by_id = {check.id: check for check in found.checks}
    assert by_id[HIT_RATE].state == State.SKIPPED
    assert "which the limit of line 7 allows by name" in by_id[HIT_RATE].sentence
    assert by_id["limit/x/extraction.hit_rate"].state == found.state == state


def test_a_limit_allows_no_leak_that_it_cannot_measure() -> None:
    bounded = make.rate(None, leaked="leak", p_value=1e-9)
    limit = Limit(0.5, metric="hit_rate")
    found = states(make.release("x", bounded), limit=(limit,), empirical=False)
    assert found[HIT_RATE] == State.FAIL


def test_a_limit_allows_no_leak_that_its_figure_hides() -> None:
    """None of 100, and the test of all planted secrets together rejects chance."""
    hidden = make.rate(0, leaked="leak", p_value=1e-9)
    limit = Limit(0.05, metric="hit_rate")
    found = states(make.release("x", hidden), limit=(limit,), empirical=False)
    assert found[HIT_RATE] == State.FAIL


def test_a_pattern_limits_leaks_and_no_charges() -> None:
    share = make.rate(90, metric="charges").changed(
        charge_test=ChargeTest(queries=9, exceeded=0), leaked="not measured"
    )
    release = make.release("x", make.rate(0), share)
    found = states(release, limit=(Limit(0.5),), empirical=False)
    assert "limit/x/extraction.charges" not in found and State.FAIL not in found.values()
    named = states(release, limit=(Limit(0.5, metric="charges"),), empirical=False)
    assert named["limit/x/extraction.charges"] == State.FAIL


def test_beside_a_limit_only_leaks_are_checked_unless_all_are_asked_for() -> None:
    calm = make.release("x", make.rate(0), make.rate(None, attack="exposure"))
    limit = (Limit(0.5, metric="hit_rate"),)
    assert not any(i.startswith("leak/") for i in states(calm, limit=limit))
    assert states(calm, limit=limit, leaks=True)[HIT_RATE] == State.PASS
    assert states(calm)[HIT_RATE] == State.PASS


# a secret of many


def test_one_user_who_leaks_completely_breaks_a_limit_on_the_largest_exposure() -> None:
    """The median of the others passes the same limit."""
    bits = {"attack": "exposure", "unit": "bits", "sides": 2, "k": None, "n": 60}
    shown = {"value": 1.1, "ci": (0.7, 1.6), "leaked": "inconclusive"}
    median = make.rate(0, metric="exposure_1_copy").changed(**bits, **shown)
    name = {"metric": "largest_exposure_1_copy", "leaked": "leak"}
    largest = median.changed(**name, value=19.93, ci=(19.93, 19.93))
    release = make.release("x", median, largest)
    limits = tuple(
        Limit(10.0, metric=metric) for metric in ("exposure_1_copy", "largest_exposure_1_copy")
    )
    found = states(release, limit=limits, empirical=False)
    assert found["limit/x/exposure.exposure_1_copy"] == State.PASS
    assert found["limit/x/exposure.largest_exposure_1_copy"] == State.FAIL
    alone = states(release, limit=limits[:1], empirical=False)
    assert alone["leak/x/exposure.largest_exposure_1_copy"] == State.FAIL


# the claim

R = 66  # guesses over 100 coins; if all are right, ε ≥ 3.06
EXPOSED = {"attack": "exposure", "metric": "exposure_1_copy"}


def evidence(v: int, delta: float = 1e-5, **changes: Any) -> Any:
    """The bound that v right guesses of R give."""
    found = make.bound(0.0, delta=delta, m=100, guesses=[(R, v)], **changes)
    return found.changed(value=bounds.at_delta(found, delta))


def answered(claim: Guarantee, *found: FindingResult, tests: int = 1) -> Check:
    """The check of a claim, after both answers were given to all findings."""
    family = Family(tests, tests)
    judged = judge(by_holm(found, claim, family), claim, Shows(), family)
    guarantee = GuaranteeResult.of(claim)
    release = make.release("dp_sgd", *judged, guarantee=guarantee, tests=tests, claim_tests=tests)
    return claim_check("dp_sgd", release)


def promise(epsilon: float | None = 2.0, **changes: Any) -> Guarantee:
    fields: dict[str, Any] = {
        "unit": "user", "relation": "add_or_remove", "release": "model", "basis": "worst case",
        "theorem": "a theorem", "delta": 1e-5,
    }  # fmt: skip
    return Guarantee(epsilon=epsilon, **{**fields, **changes})


@pytest.mark.parametrize(
    ("v", "tests", "state", "said"),
    [
        (66, 1, State.FAIL, "refuted by extraction.hit_rate"),
        (63, 1, State.FAIL, "refuted by extraction.hit_rate"),
        (63, 9, State.INCONCLUSIVE, "above the claim, but not significant once adjusted"),
        (55, 1, State.PASS, "not refuted"),
        (33, 1, State.PASS, "measured: at least 0, confidence 95% each; not refuted"),
    ],
)
def test_a_claim_falls_once_it_is_beyond_doubt(v: int, tests: int, state: State, said: str) -> None:
    found = make.rate(0, epsilon_lower=evidence(v), test="one")
    check = answered(promise(), found, tests=tests)
    assert check.state == state and said in check.sentence, check.sentence


@pytest.mark.parametrize(
    ("test", "word", "state"),
    [
        (ChargeTest(queries=9, exceeded=0), "not refuted", State.PASS),
        (ChargeTest(queries=9, exceeded=1), "refuted", State.FAIL),
        (ChargeTest(queries=9, p_value=0.5), "not refuted", State.PASS),
        (ChargeTest(queries=0), "not testable", State.INCONCLUSIVE),
    ],
)
def test_a_ledger_speaks_of_the_claim_and_of_no_leak(
    test: ChargeTest, word: str, state: State
) -> None:
    """Nor is its silence about leaks held against the release by --strict."""
    finding = make.rate(None, attack="ledger", metric="charges", leaked="not measured", claim=word)
    finding = finding.model_copy(update={"charge_test": test})
    release = make.release("submix", make.rate(0, claim="not testable"), finding)
    assert [c.subject for c in leak_checks("", release, {}, True, Rules())] == [
        "extraction.hit_rate"
    ]
    check = claim_check("", release)
    assert check.state == state
    assert "at least" not in check.sentence
    if word == "not refuted":
        assert "9 queries beside their charges (charges); not refuted" in check.sentence


def test_bounds_of_another_kind_say_nothing_of_the_claim() -> None:
    found = make.rate(0, epsilon_lower=evidence(R))
    part = {"unit": "part", "relation": "removed", "alpha": 2.0, "basis": "data-dependent"}
    for claim in (promise(**part), promise(unit="record")):
        assert answered(claim, found).state == State.SKIPPED
    for nothing in (None, math.inf):
        check = answered(promise(nothing), found)
        assert (check.state, check.sentence[:16]) == (State.SKIPPED, "no ε is claimed,")


@pytest.mark.parametrize(
    ("delta", "v", "state", "said"),
    [
        (0.0, 63, State.FAIL, "refuted"),
        (1e-5, 63, State.FAIL, "refuted"),
        (1e-4, 64, State.FAIL, "refuted"),
        (1e-3, 64, State.FAIL, "refuted"),
        (1e-3, 63, State.PASS, "measured: at least 1.945, "),
        (0.01, 66, State.INCONCLUSIVE, "no number of coins could refute the claimed ε = 2 at δ"),
    ],
)
def test_a_claim_is_tested_at_its_own_delta(delta: float, v: int, state: State, said: str) -> None:
    """The coins and guesses are stored, so the bound at the plan's δ = 1e-5 is no obstacle."""
    found = make.rate(0, epsilon_lower=evidence(v))
    check = answered(promise(delta=delta), found)
    assert check.state == state and said in check.sentence, check.sentence


def test_a_claim_nobody_measured_is_open() -> None:
    check = answered(promise(), make.rate(0))
    assert check.state == State.INCONCLUSIVE
    assert "no attack of this run gives a bound on ε" in check.sentence
    found = make.rate(0, epsilon_lower=evidence(R), fair_coins=False)
    check = answered(promise(), found)
    assert check.state == State.INCONCLUSIVE and "no fair coins" in check.sentence


@pytest.mark.parametrize("v", [40, R])
def test_what_reads_more_than_the_release_gives_is_no_evidence_on_it(v: int) -> None:
    beyond = make.rate(0, epsilon_lower=evidence(v), stronger_than_release=True)
    assert answered(promise(), beyond).state == State.INCONCLUSIVE
    own = make.rate(0, metric="recall", epsilon_lower=evidence(40), test="recall")
    assert answered(promise(), beyond, own).state == State.PASS


def test_why_no_attack_tests_a_claim_of_another_kind() -> None:
    """What the release gives decides; what was not trained on is open, whatever its kind."""
    part = promise(unit="part", relation="removed", alpha=2.0, basis="data-dependent")
    bound = evidence(40)
    own = make.rate(0, epsilon_lower=bound)
    beyond = make.rate(0, metric="probability", epsilon_lower=bound, stronger_than_release=True)
    for found in ([own], [own, beyond], [beyond, own]):
        check = answered(part, *found)
        assert (check.state, "Rényi" in check.sentence) == (State.SKIPPED, True)
    assert answered(part, beyond).state == State.INCONCLUSIVE
    lost = own.model_copy(update={"untrained": "Lost."})
    assert answered(part, lost).state == State.INCONCLUSIVE


@pytest.mark.parametrize("tests", [1, 4, 20])
def test_a_claim_that_nothing_could_have_refuted_is_not_upheld(tests: int) -> None:
    """All R of R right refute ln(q/(1−q)), q^R = 0.05/tests, at δ = 0, and no more."""
    q = (0.05 / tests) ** (1 / R)
    most = math.log(q / (1 - q))
    power = make.rate(0).power.model_copy(update={"largest_epsilon": None})
    found = make.rate(0, epsilon_lower=evidence(40, delta=0.0), power=power)
    for epsilon, state in ((most - 0.01, State.PASS), (most + 0.01, State.INCONCLUSIVE)):
        check = answered(promise(epsilon, delta=None), found, tests=tests)
        assert check.state == state
    assert "so few could refute at most ε = " in check.sentence


def test_one_finding_that_could_refute_the_claim_is_enough() -> None:
    bound = evidence(40)
    few = make.rate(0, epsilon_lower=bound, power=make.rate(0).power)  # at most 3
    few = few.model_copy(
        update={"power": few.power.model_copy(update={"largest_epsilon": 1.0}), "test": "few"}
    )
    many = make.rate(0, metric="recall", epsilon_lower=bound, test="many")
    lost = many.model_copy(update={"untrained": "It was not trained on."})
    for others, state in (([many], State.PASS), ([lost], State.INCONCLUSIVE)):
        assert answered(promise(), few, *others, tests=2).state == state


def test_the_claim_is_checked_unless_it_is_switched_off() -> None:
    found = make.rate(0, epsilon_lower=evidence(R), claim="refuted")
    release = make.release("dp_sgd", found)
    assert states(release)["empirical/dp_sgd"] == State.FAIL
    assert "empirical/dp_sgd" not in states(release, empirical=False)


def test_other_exposures_do_not_hide_a_refutation() -> None:
    refuting = make.rate(0, epsilon_lower=evidence(R), test="one")
    quiet = make.rate(0, epsilon_lower=evidence(33), test="two", **EXPOSED)
    for found in ((refuting, quiet), (quiet, refuting)):
        check = answered(promise(), *found, tests=2)
        assert (check.state, check.sentence.split("; ")[1]) == (
            State.FAIL,
            "refuted by extraction.hit_rate",
        )


def test_policy_switches_are_independent() -> None:
    """A leak fails beside any switch."""
    leaky = make.release("x", make.rate(5, leaked="leak"))
    for policy in (Policy(), Policy(leaks=True), Policy(empirical=False)):
        found = verdict(make.run(leaky), replace(policy, confidence=0.9), None, make.TODAY)
        assert found.exit_code == 1


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
