"""Both answers: what leaked, and what it says about the claim; what it takes to earn each word."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings import LEVEL, bounds
from audit.findings.rejections import Family
from audit.findings.verdict import claim_overall, judge, leaks
from audit.results.joined import against_silence, leaked_overall
from audit.results.measurement import Exhibit, Measurement
from audit.results.schema import ClaimTest, Control, EpsilonLower, GuaranteeResult, Power
from audit.results.words import at_least, at_most, percent
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.holm import adjusted_p_values
from audit.statistics.interval import Interval
from tests.findings.by_hand import (
    HALF,
    MOST,
    NONE,
    SENSITIVE,
    R,
    answered,
    charged,
    finding,
    judged,
    promise,
    shows,
)
from tests.findings.drawn import CLAIMS, PART, RENYI, any_claim, any_control, any_findings

NEEDS = Interval(None, None, None, 9, 0.95, "needs 1000 controls")
UNMEASURED = {"interval": clopper_pearson(0, 0), "k": 0, "control": None, "observation": ""}

# what leaked, which does not depend on what was promised

LEAKED: list[tuple[str, Measurement, Mapping[tuple[str, str], bool] | None, str]] = [
    ("a rejected test", finding(), SENSITIVE, "leak"),
    ("without references", finding(), None, "leak"),
    ("whatever the control did", finding(), {}, "leak"),
    ("read with more than the release gives", finding(stronger_than_release=True), SENSITIVE,
     "leak to insiders"),
    ("without a bound", finding(v=None), SENSITIVE, "leak"),
    ("a value below nominal chance", finding(chance=0.5), SENSITIVE, "leak"),
    ("a value below the twins'", finding(control=Control(value=0.4, ci=(0.3, 0.5), k=40, n=100)),
     SENSITIVE, "leak"),
    ("no value, a rejected test", finding(**UNMEASURED), SENSITIVE, "leak"),
    ("what was not trained on, and leaks all the same", finding(untrained="Lost."), SENSITIVE,
     "leak"),
    ("no leak", finding(NONE, HALF), SENSITIVE, "no leak found"),
    ("far above nominal chance, and the test rejects nothing", finding(NONE, HALF, chance=1e-9),
     SENSITIVE, "no leak found"),
    ("so little that no test could tell", finding(NONE, HALF, least_p=0.05), SENSITIVE,
     "inconclusive"),
    ("no twins, and above chance", finding(NONE, HALF, control=None, chance=0.01), SENSITIVE,
     "no leak found"),
    ("the positive control silent, too", finding(NONE, HALF), {("extraction", "hit_rate"): False},
     "inconclusive"),
    ("control on another metric", finding(NONE, HALF), {("extraction", "recall"): True},
     "inconclusive"),
    ("control of another attack", finding(NONE, HALF), {("other", "hit_rate"): True},
     "inconclusive"),
    ("control not measured", finding(NONE, HALF), {}, "inconclusive"),
    ("no references", finding(NONE, HALF), None, "inconclusive"),
    ("not trained on", finding(NONE, HALF, untrained="Lost."), SENSITIVE, "inconclusive"),
    ("no test", finding(None, HALF), SENSITIVE, "inconclusive"),
    ("nothing answered", finding(None, None, **UNMEASURED), SENSITIVE, "not measured"),
    ("nothing answered, no references", finding(None, None, **UNMEASURED), None, "not measured"),
]  # fmt: skip


def test_what_leaked_is_answered_whatever_was_promised() -> None:
    for (row, given, sensitive, word), claim in product(LEAKED, CLAIMS):
        result = answered(given, claim, sensitive)
        assert result.leaked == word, (row, claim, result.sentence)
        assert result.sentence.endswith(".") or not result.sentence
        assert "  " not in result.sentence


# what this says about the claim

CLAIMED: list[tuple[str, Measurement, Guarantee, str]] = [
    ("above the claim", finding(), promise(2.0), "refuted"),
    ("a pure claim", finding(), promise(2.0, delta=None), "refuted"),
    ("zero claimed", finding(v=MOST), promise(0.0, delta=0.0), "refuted"),
    ("zero claimed, no bound", finding(v=None), promise(0.0, delta=0.0), "refuted"),
    ("zero claimed, no leak", finding(NONE, HALF), promise(0.0, delta=0.0), "not refuted"),
    ("a smaller δ", finding(), promise(2.0, delta=1e-9), "refuted"),
    ("tested at δ = 0, whatever the bound's δ", finding(delta=3e-4), promise(3.0, delta=None),
     "refuted"),
    ("below the claim", finding(v=MOST), promise(2.0), "not refuted"),
    ("no leak", finding(NONE, HALF), promise(2.0), "not refuted"),
    ("what no such run could refute", finding(), promise(3.1), "not testable"),
    ("what no such run could refute, no leak", finding(NONE, HALF), promise(8.0), "not testable"),
    ("zero per part", finding(), promise(0.0, **PART), "not testable"),
    ("a Rényi claim", finding(), promise(2.0, **RENYI), "not testable"),
    ("a part's claim", finding(), promise(2.0, **PART), "not testable"),
    ("a data-dependent claim", finding(), promise(2.0, basis="data-dependent"), "not testable"),
    ("a record's claim", finding(), promise(2.0, unit="record"), "not testable"),
    ("a claim under replace", finding(), promise(2.0, relation="replace"), "not testable"),
    ("a larger δ", finding(), promise(2.0, delta=1e-2), "not testable"),
    ("no bound", finding(v=None), promise(2.0), "not testable"),
    ("reads too much", finding(stronger_than_release=True), promise(2.0), "not testable"),
    ("reads too much, zero claimed", finding(stronger_than_release=True), promise(0.0),
     "not testable"),
    ("nothing measured", finding(None, None, **UNMEASURED), promise(2.0), "not testable"),
    ("not trained on", finding(NONE, HALF, untrained="Lost."), promise(2.0), "not testable"),
    ("nothing promised", finding(), promise(math.inf), "nothing claimed"),
    ("promise unknown", finding(), promise(None), "unknown"),
]  # fmt: skip


def test_the_claim_is_answered_beside_it() -> None:
    for (row, given, guarantee, word), sensitive in product(CLAIMED, (SENSITIVE, None)):
        result = answered(given, guarantee, sensitive)
        assert result.claim == word, (row, sensitive, result.claim_sentence)
        assert result.claim_sentence.endswith(".") and "  " not in result.claim_sentence


def test_the_tables_have_every_word() -> None:
    assert {row[3] for row in LEAKED} == set(Leaked)
    assert {row[3] for row in CLAIMED} == set(OnClaim)


# the invariant


@for_all(any_findings(), any_claim, any_control, st.integers(0, 30), st.integers(0, 30))
def test_no_rejected_test_is_ever_called_anything_but_a_leak(
    found: list[Measurement],
    claim: Guarantee,
    sensitive: Mapping[tuple[str, str], bool] | None,
    tests: int,
    claims: int,
) -> None:
    results = judged(found, claim, sensitive, tests, claims)
    p_of = {f.test: f.p_value for f in found if f.p_value is not None}
    size = max(tests, len(p_of))
    adjusted = adjusted_p_values([*p_of.values(), *[1.0] * (size - len(p_of))])
    rejected = {test for test, p in zip(p_of, adjusted, strict=False) if p < LEVEL}
    for result in results:
        shown = result.value is not None or not any(
            r.test == result.test and r.value is not None for r in results
        )
        if result.test in rejected and shown:
            assert result.leaked.detected
            assert (result.leaked == Leaked.INSIDERS) == result.stronger_than_release
        if result.p_value is not None and result.p_value < LEVEL:
            assert result.leaked != Leaked.NONE_FOUND
        if result.leaked == Leaked.NONE_FOUND:
            assert sensitive and sensitive[result.attack, result.metric]
            assert result.p_value is not None and not result.untrained
            assert result.epsilon_lower is None or result.epsilon_lower.value == 0
        if result.claim == OnClaim.REFUTED and shown:
            assert result.leaked == Leaked.LEAK and not result.stronger_than_release
    if any(leaks(r) for r in results):
        assert leaked_overall(results) == Leaked.LEAK
    if any(r.claim == OnClaim.REFUTED for r in results):
        assert claim_overall(results, claim) == OnClaim.REFUTED


# families


@pytest.mark.parametrize(
    ("p_values", "tests", "words"),
    [
        ([0.05], 0, ["leak"]),
        ([0.0501], 0, ["inconclusive"]),
        ([0.03], 0, ["leak"]),
        ([0.03] * 4, 0, ["inconclusive"] * 4),  # Holm: 0.03 among four is 0.12
        ([0.9, 0.01, 0.8, 0.7], 0, ["no leak found", "leak", "no leak found", "no leak found"]),
        # six were to be made, whatever came of two of them
        ([0.01, 0.9, 0.8, 0.7], 6, ["inconclusive", *["no leak found"] * 3]),
        # without a test a finding neither counts nor shifts the others: 2 · 0.03 = 0.06
        ([None, 0.03, None, 0.9], 0, [*["inconclusive"] * 3, "no leak found"]),
        ([None, 0.024, None, 0.9], 0, ["inconclusive", "leak", "inconclusive", "no leak found"]),
        # a grey zone lies between leak and silence: 0.04, 0.06, and 0.149 or 0.151 adjusted
        ([0.004], 10, ["leak"]),
        ([0.006], 10, ["inconclusive"]),
        ([0.0149], 10, ["inconclusive"]),
        ([0.0151], 10, ["no leak found"]),
        ([0.04], 10, ["no leak found"]),  # one of ten is below 0.05 in 40 % of runs
    ],
)
def test_leak_survives_the_other_tests_of_its_release(
    p_values: Sequence[float | None], tests: int, words: Sequence[str]
) -> None:
    given = [
        finding(p, None if p is None else HALF, metric=metric)
        for p, metric in zip(p_values, "abcd", strict=False)
    ]
    everywhere = {("extraction", metric): True for metric in "abcd"}
    found = judged(given, promise(2.0), everywhere, tests=tests)
    assert [one.leaked for one in found] == words
    if tests == 10 and words != ["leak"]:
        shown = 10 * (p_values[0] or 0) if words == ["inconclusive"] else p_values[0]
        assert "one of 10" in found[0].sentence and f"p = {shown:.2g}" in found[0].sentence


@pytest.mark.parametrize(("tests", "word"), [(1, "no leak found"), (2, "inconclusive")])
def test_no_outcome_that_could_convince_is_no_silence(tests: int, word: str) -> None:
    """At best p = 0.03: 0.06 beside another test of the run, whether or not that was made."""
    (result,) = judged([finding(NONE, v=HALF, least_p=0.03)], promise(2.0), SENSITIVE, tests)
    assert result.leaked == word


def test_claim_itself_is_what_is_tested() -> None:
    """All 66 right: q^66 = 0.03 at ε = ln q/(1 - q), δ = 0. One such test refutes, two do not."""
    q = 0.03 ** (1 / R)
    claim = promise(math.log(q / (1 - q)), delta=None)
    power = Power(smallest_rate=None, largest_epsilon=None, n=100)
    given = [finding(delta=0.0, metric=metric, power=power) for metric in "ab"]
    assert answered(given[0], claim).claim == "refuted"
    assert {r.claim for r in judged(given, claim)} == {"not testable"}  # 0.03 < 0.05, not < 0.025
    reads = given[1].changed(stronger_than_release=True)  # is no test of the claim, and costs none
    assert [r.claim for r in judged([given[0], reads], claim)] == ["refuted", "not testable"]
    shared = [f.changed(test="one") for f in given]  # two views of one test are one test
    assert {r.claim for r in judged(shared, claim)} == {"refuted"}


def test_tests_without_a_bound_cost_the_claim_nothing() -> None:
    """Twenty tests of leaks, two of them with a bound: a claim's p is adjusted for two."""
    q = 0.02 ** (1 / R)
    claim = promise(math.log(q / (1 - q)), delta=None)
    given = [finding(delta=0.0, metric="a"), finding(delta=0.0, v=None, metric="b")]
    assert judged(given, claim, tests=20, claims=2)[0].claim == "refuted"
    assert judged(given, claim, tests=20, claims=3)[0].claim == "not testable"
    zero = promise(0.0, delta=0.0)  # refuted by any test that finds a leak, so all count
    weak = [finding(0.004, None, metric="a")]
    assert judged(weak, zero, tests=10, claims=1)[0].claim == "refuted"
    assert judged(weak, zero, tests=20, claims=1)[0].claim == "not refuted"


# too few to test the claim


@pytest.mark.parametrize(("evidence", "best"), [
    ({"m": 60, "guesses": [(40, 20)], "delta": 0.0}, 2.554),  # q^40 = 0.05
    ({"method": "rank", "rank": 5e4, "space": 1e5, "n": 1, "delta": 0.0}, math.log(0.05 * 1e5)),
    ({"method": "rank", "rank": 5e4, "space": 1e5, "n": 9, "delta": 0.0}, math.log(0.025 * 1e5)),
])  # fmt: skip
@pytest.mark.parametrize("tests", [1, 4, 20])
def test_refutable_claim_is_adjusted_for_all_its_tests(
    evidence: dict[str, Any], best: float, tests: int
) -> None:
    """At 0.05/tests all guesses right, or rank 1, refute less than at 0.05."""
    if "m" in evidence:
        q = (0.05 / tests) ** (1 / 40)
        adjusted = math.log(q / (1 - q))
        assert tests > 1 or adjusted == pytest.approx(best, abs=1e-3)
    else:
        adjusted = best - math.log(tests)
    power = Power(smallest_rate=None, largest_epsilon=None, n=9)
    given = finding(NONE, epsilon_lower=EpsilonLower(**{**KNOWN, **evidence}), power=power)
    words = [
        judged([given], promise(epsilon, delta=None), claims=tests)[0].claim
        for epsilon in (adjusted - 0.01, adjusted + 0.01)
    ]
    assert words == ["not refuted", "not testable"]


KNOWN = {"value": 0.0, "method": "one_run", "hypothesis": "none", "unit": "user",
         "relation": "add_or_remove"}  # fmt: skip


@pytest.mark.parametrize(
    ("epsilon", "delta", "said"),
    [
        (1.0, 1e-3, "no number of coins could refute the claimed ε = 1 at δ = 0.001 by this test"),
        (0.4, 5e-4, "too few coins at δ = 5 × 10⁻⁴ to refute the claimed ε = 0.4"),
        (1.0, 1e-5, None),
    ],
)
def test_too_few_coins_at_this_delta_is_the_reason(
    epsilon: float, delta: float, said: str | None
) -> None:
    """80 guesses over 120 coins: at δ = 1e-3 the term 2mδ alone keeps p above .004."""
    over = EpsilonLower(**KNOWN, delta=1e-3, m=120, guesses=[(80, 80)])
    power = Power(smallest_rate=None, largest_epsilon=None, n=120)
    given = finding(epsilon_lower=over, power=power)
    (result,) = judged([given], promise(epsilon, delta=delta), tests=18, claims=18)
    assert result.claim == ("refuted" if said is None else "not testable")
    assert said is None or said in result.claim_sentence


# the claim's own curve


def curve_test(p: float, least_p: float = 1e-9, **changes: Any) -> ClaimTest:
    fields = {"mechanism": "DP-SGD, σ = 1", "m": 120, "r": 80, "v": 79, "critical": 77}
    return ClaimTest(**{**fields, "p_value": p, "least_p": least_p, **changes})


def test_claim_with_a_curve_is_tested_by_it_alone() -> None:
    """Never by the smaller of two p-values; δ and what the bound compares with play no part."""
    for claim in (promise(2.0), promise(2.0, delta=1e-2)):
        assert answered(finding(claim_test=curve_test(0.2)), claim).claim == "not refuted"
        result = answered(finding(v=HALF, claim_test=curve_test(1e-4)), claim)
        assert result.claim == "refuted"
        assert "79 of 80 right guesses" in result.claim_sentence
    weak = finding(claim_test=curve_test(0.9, least_p=0.06))
    assert answered(weak, promise(2.0)).claim == "not testable"


@pytest.mark.parametrize(("right", "claim", "word"), [
    (78, "refuted", "leak"),
    (40, "not refuted", "no leak found"),  # a p-value of the claim that its guesses contradict
])  # fmt: skip
def test_claim_falls_only_where_its_guesses_leak(right: int, claim: str, word: str) -> None:
    test = curve_test(1e-6, m=100, v=right, critical=70)
    (one,) = judged([finding(NONE, HALF, claim_test=test)], promise(2.0), claims=2)
    assert (one.leaked, one.claim) == (word, claim)


# ranks: another kind of bound


def ranked(rank: float, n: int, delta: float = 0.0) -> Measurement:
    """A finding whose ε comes from the (lower median) rank of n secrets of a thousand."""
    most = (0.05 if n == 1 else 0.025) * 1000
    shown = {"method": "rank", "value": max(0.0, math.log(most / rank)), "delta": delta}
    rank_bound = EpsilonLower(**{**KNOWN, **shown}, rank=rank, space=1000.0, n=n)
    power = Power(smallest_rate=None, largest_epsilon=math.log(most), n=n)
    return finding(epsilon_lower=rank_bound, power=power, k=None)


@pytest.mark.parametrize(
    ("rank", "n", "delta", "refuted", "above"),
    [
        (1, 1, None, math.log(50), "not testable"),  # e^ε · 1/1000 = 0.05
        (2, 1, None, math.log(25), "not refuted"),
        (1, 3, None, math.log(25), "not testable"),  # a lower median has at most twice that
        (5, 3, None, math.log(5), "not refuted"),
        (1, 1, 0.03, math.log(20), "not testable"),  # e^ε/1000 + 0.03 = 0.05, not ln 50
    ],
)
def test_rank_refutes_what_it_is_too_improbable_under(
    rank: float, n: int, delta: float | None, refuted: float, above: str
) -> None:
    given = ranked(rank, n, delta or 0.0)
    for epsilon, word in ((refuted - 2e-5, "refuted"), (refuted + 2e-5, above)):
        assert answered(given, promise(epsilon, delta=delta)).claim == word
    result = answered(given, promise(0.9 * refuted, delta=delta))
    assert f"at least {at_least(refuted)}" in result.claim_sentence


# candidates that differ in themselves: by accident, as fair coins chose


def area(low: float, value: float, high: float) -> Interval:
    return Interval(value, low, high, 200, 0.95, "binomial tail means, two-sided")


ABOVE, BELOW = area(0.8, 0.9, 0.95), area(0.05, 0.1, 0.2)


@pytest.mark.parametrize(
    ("value", "blind", "said"),
    [
        *((value, blind, False) for value in (ABOVE, BELOW) for blind in (None, (0.4, 0.6))),
        *((value, blind, True) for value in (ABOVE, BELOW, NEEDS)
          for blind in ((0.55, 0.85), (0.93, 1.0), (0.0, 0.2), (0.8, 0.95), (0.15, 0.45))),
        (ABOVE, (0.5, 0.9), False),  # texts tell nothing apart
        (ABOVE, (0.55, 0.75), False),  # the model knows more than the texts
        (BELOW, (0.55, 0.75), False),
        (BELOW, (0.25, 0.45), False),
    ],
)  # fmt: skip
def test_texts_told_apart_are_mentioned_beside_a_leak(
    value: Interval, blind: tuple[float, float] | None, said: bool
) -> None:
    """Without an area of the model's own, nothing says that it knows more than the texts tell."""
    given = finding(
        interval=value, control=None, metric="auc", unit="AUC", k=None, chance=0.5, sides=2,
        blind=None if blind is None else Control(value=sum(blind) / 2, ci=blind, n=200),
    )  # fmt: skip
    result = answered(given, promise(math.inf), {("extraction", "auc"): True})
    assert result.leaked == "leak"
    assert ("accident of the coins" in result.sentence) is said


# what is joined, kept and said


def test_no_findings_no_answers() -> None:
    assert judged([], promise(2.0)) == []
    assert leaked_overall([]) == "not measured"
    for epsilon, word in ((2.0, "not testable"), (None, "unknown"), (math.inf, "nothing claimed")):
        assert claim_overall([], promise(epsilon)) == word


def test_release_has_no_leak_only_where_every_test_agrees() -> None:
    quiet, loud = finding(NONE, HALF, metric="a"), finding(metric="b")
    open_, bare = finding(0.007, HALF, metric="c"), finding(None, None, metric="d")
    beyond = finding(metric="e", stronger_than_release=True)
    everywhere = {("extraction", metric): True for metric in "abcde"}
    for given, word in (
        ([quiet, bare], "no leak found"),
        ([quiet, beyond], "no leak found"),
        ([quiet, open_], "inconclusive"),
        ([quiet, open_, loud], "leak"),
        ([bare], "inconclusive"),
        ([beyond], "not measured"),
    ):
        assert leaked_overall(judged(given, promise(2.0), everywhere, tests=9)) == word


def test_grey_guesses_and_open_exhibits_are_no_silence() -> None:
    """Neither has a p-value of its own: of unequal spaces, and of users without coins."""
    quiet, claim = finding(NONE, None).changed(adjusted_p=NONE), GuaranteeResult.of(promise(2.0))
    guessed = finding(None, MOST, metric="email_hit_rate").changed(guesses_p=0.1)
    copied = Exhibit(nats=None, unwritten=0, shared=0, tried=9)
    seen, unseen = (finding(None, None, metric="own_exhibits", k=k, exhibit=copied) for k in (1, 0))
    for other, word in (
        (guessed, "inconclusive"),
        (seen, "inconclusive"),
        (unseen, "no leak found"),
    ):
        found = judge([quiet, other], claim, shows(SENSITIVE), Family(2, 2))
        assert leaked_overall(found) == word
        open_ = [f.metric for f in against_silence(found)]  # of which page one states the remedy
        assert open_ == ([other.metric] if word == "inconclusive" else [])


def test_answer_carries_its_measurement() -> None:
    given = finding(chance=0.5, sides=2, roc=((0.0, 0.2), (1.0, 1.0)))
    result = answered(given, promise(2.0))
    kept = {name: value for name, value in given if name not in ("adjusted_p", "guesses_p")}
    assert {name: getattr(result, name) for name in kept} == kept


WHY: list[tuple[Measurement, Guarantee, list[str]]] = [
    (finding(), promise(2.0), ["30 of 100 generations were planted secrets", "0 were twins'",
     "ε = 2 nats", "at least 3.0", "adjusted p = 1.4e-20"]),
    (finding(v=MOST), promise(2.0), ["is not refuted", "at least 0.6"]),
    (finding(NONE, HALF), promise(2.0), ["Not told apart from chance (smallest",
     "found in 4 of 5"]),
    (finding(), promise(2.0, **RENYI), ["Rényi", "order 2"]),
    (finding(chance=0.5), promise(2.0), ["this figure alone hides it"]),
    (finding(None, None, untested="No coin decides it."), promise(2.0), ["No coin decides it."]),
    (finding(v=MOST), promise(3.1), ["refute at most ε = 3.0", "the claimed ε = 3.1"]),
    (finding(None, None, **UNMEASURED), promise(2.0), ["Nothing was answered"]),
    (finding(None, None, **{**UNMEASURED, "interval": NEEDS}), promise(2.0),
     ["It needs 1000 controls."]),
    (finding(None, None, **{**UNMEASURED, "observation": "So few say nothing."}), promise(2.0),
     ["So few say nothing."]),
    # the control's silence explains silence, not signs of a leak
    (finding(0.1, HALF), promise(2.0), ["More than chance"]),
]  # fmt: skip


def test_sentences_give_the_reason() -> None:
    for given, guarantee, words in WHY:
        sensitive = {} if words == ["More than chance"] else SENSITIVE
        result = answered(given, guarantee, sensitive)
        sentence = f"{result.sentence} {result.claim_sentence}"
        assert all(word in sentence for word in words), sentence


def test_bound_beside_silence_is_unadjusted() -> None:
    first, _ = judged([finding(NONE, 45), finding(NONE, 40, metric="b")], promise(None), tests=9)
    assert first.leaked == "no leak found"
    assert "is one of 2, unadjusted" in first.sentence


@pytest.mark.parametrize(
    ("given", "claim"),
    [
        (finding(), promise(2.0)),
        (finding(v=HALF), promise(0.0, delta=0.0)),  # the p-value refutes, the bound is 0
        (finding(delta=3e-4), promise(3.0, delta=None)),  # the bound is for a larger δ
    ],
    ids=["plain", "zero", "pure"],
)
def test_refutation_names_no_number_below_the_claim(given: Measurement, claim: Guarantee) -> None:
    result = answered(given, claim)
    assert result.claim == "refuted" and claim.epsilon is not None
    named = re.findall(r"at least ([\d.]+)", result.claim_sentence)
    assert all(float(number) > claim.epsilon for number in named), result.claim_sentence


def test_ledger_is_tested_whatever_else_is_read() -> None:
    given = charged(1.1, exceeded=1).changed(stronger_than_release=True)
    assert answered(given, promise(2.0)).claim == "refuted"


def test_bound_is_shown_at_the_delta_of_the_claim() -> None:
    given = finding(v=MOST, delta=1e-3)
    assert given.epsilon_lower is not None
    shown = bounds.at_delta(given.epsilon_lower, 0.0)
    assert shown > given.epsilon_lower.value + 0.04
    result = answered(given, promise(2.0, delta=None))
    assert result.claim == "not refuted"
    assert result.claim_sentence.endswith(f"; shown: at least {at_least(shown)}.")


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.0295, "2.95 %"), (1e-5, "1.0e-05"), (1e-4, "0.01 %")],
)
def test_percent_of_a_share(share: float, words: str) -> None:
    assert percent(share) == words


@for_all(st.floats(1e-9, 1e9))
def test_promises_are_rounded_up_and_bounds_down(value: float) -> None:
    def plain(text: str) -> float:
        text = text.replace(",", "").replace(" × 10", "e")
        return float(text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))

    for digits in (2, 3, 4):
        unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
        up, down = plain(at_most(value, digits)), plain(at_least(value, digits))
        assert value * (1 - 1e-9) <= up <= value + 1.1 * unit
        assert value - 1.1 * unit <= down <= value * (1 + 1e-9)


@pytest.mark.parametrize(("value", "up", "down"), [
    (8.0, "8", "8"), (2.997, "3", "2.99"), (59.6001, "59.7", "59.6"),
    (1e-5, "1 × 10⁻⁵", "1 × 10⁻⁵"), (0.0, "0", "0"), (math.inf, "∞", "∞"),
    (1234.5, "1,240", "1,230"), (0.1 + 0.2, "0.3", "0.3"),
    (8.333e-4, "8.34 × 10⁻⁴", "8.33 × 10⁻⁴"),
])  # fmt: skip
def test_epsilon_in_words(value: float, up: str, down: str) -> None:
    assert (at_most(value), at_least(value)) == (up, down)
