"""Every verdict word, and what it takes to earn it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from audit.core.guarantee import Guarantee
from audit.core.terms import Verdict
from audit.findings import Finding
from audit.findings.headline import headline
from audit.findings.verdict import judge, leaks
from audit.results.schema import (
    Control,
    Cost,
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    Measure,
    Power,
    ReleaseResult,
    SessionResult,
)
from audit.results.words import percent
from audit.statistics import one_run
from audit.statistics.interval import Interval, clopper_pearson

LEAK, NONE = 1e-9, 0.5  # p-values
SENSITIVE = {("extraction", "hit_rate"): True}


R = 66  # guesses over 100 coins
ALL = R  # right of them: ε ≥ 3.06 at δ = 0, the most that so many can show
MOST = 50  # of them: ε ≥ 0.6
HALF = 33  # of them: nothing


def bound(v: int, delta: float) -> EpsilonLower:
    """The empirical ε of v right guesses."""
    value = one_run.epsilon_lower(100, R, v, delta)
    return EpsilonLower(
        value=value, method="one_run", hypothesis="none", unit="user", relation="add_or_remove",
        delta=delta, m=100, r=R, v=v,
    )  # fmt: skip


def finding(
    p: float | None = LEAK, v: int | None = ALL, delta: float = 1e-6, **changes: Any
) -> Finding:
    fields: dict[str, Any] = {
        "attack": "extraction",
        "metric": "hit_rate",
        "access": "generate",
        "unit": "share of generations",
        "interval": clopper_pearson(30, 100),
        "observation": "30 of 100 generations were planted secrets; 0 were twins'.",
        "k": 30,
        "chance": 0.25,
        "control": Control(value=0.0, ci=(0.0, 0.04), k=0, n=100),
        "p_value": p,
        "test": f"test of {changes.get('metric', 'hit_rate')}",
        "epsilon_lower": None if v is None else bound(v, delta),
        "power": Power(smallest_rate=0.0295, detectable_rate=0.0466, largest_epsilon=3.06, n=100),
    }
    return Finding(**{**fields, **changes})


def promise(epsilon: float | None, **changes: Any) -> Guarantee:
    fields: dict[str, Any] = {
        "unit": "user", "relation": "add_or_remove", "release": "model", "basis": "worst case",
        "theorem": "a theorem", "delta": 1e-6,
    }  # fmt: skip
    return Guarantee(epsilon=epsilon, **{**fields, **changes})


def verdict(
    given: Finding, guarantee: Guarantee, sensitive: dict[tuple[str, str], bool] | None = SENSITIVE
) -> FindingResult:
    (result,) = judge([given], guarantee, sensitive)
    return result


RENYI = {"delta": None, "alpha": 2.0}
PART = {"unit": "part", "relation": "removed", "basis": "data-dependent", "delta": None}
NEEDS = Interval(None, None, None, 9, 0.95, "needs 1000 controls")
UNMEASURED = {"interval": clopper_pearson(0, 0), "k": 0, "control": None, "observation": ""}

TABLE: list[tuple[str, Finding, Guarantee, dict[tuple[str, str], bool] | None, str]] = [
    ("above the claim", finding(), promise(2.0), SENSITIVE, "refuted"),
    ("refuted without references too", finding(), promise(2.0), None, "refuted"),
    ("a pure claim", finding(), promise(2.0, delta=None), SENSITIVE, "refuted"),
    ("below the claim", finding(v=MOST), promise(2.0), SENSITIVE, "consistent"),
    ("a claim that no such run could refute", finding(), promise(3.1), SENSITIVE, "inconclusive"),
    ("nothing promised", finding(), promise(math.inf), SENSITIVE, "consistent"),
    ("promise unknown", finding(), promise(None), SENSITIVE, "not comparable"),
    ("zero claimed", finding(v=MOST), promise(0.0, delta=0.0), SENSITIVE, "refuted"),
    ("zero claimed, no bound", finding(v=HALF), promise(0.0, delta=0.0), SENSITIVE, "refuted"),
    ("zero per part", finding(), promise(0.0, **PART), SENSITIVE, "not comparable"),
    ("Rényi claim", finding(), promise(2.0, **RENYI), SENSITIVE, "not comparable"),
    ("part claim", finding(), promise(2.0, **PART), SENSITIVE, "not comparable"),
    ("SubMix's claim", finding(), promise(2.0, **{**PART, "alpha": 2.0}), SENSITIVE,
     "not comparable"),
    ("data-dependent claim", finding(), promise(2.0, basis="data-dependent"), SENSITIVE,
     "not comparable"),
    ("record claim", finding(), promise(2.0, unit="record"), SENSITIVE,
     "not comparable"),
    ("replace claim", finding(), promise(2.0, relation="replace"), SENSITIVE,
     "not comparable"),
    ("claim with a larger δ", finding(), promise(2.0, delta=1e-2), SENSITIVE,
     "not comparable"),
    ("claim with a smaller δ", finding(), promise(2.0, delta=1e-9), SENSITIVE,
     "refuted"),
    ("a pure claim is tested at δ = 0, whatever the bound's δ", finding(delta=3e-4),
     promise(3.0, delta=None), SENSITIVE, "refuted"),
    ("no bound", finding(v=None), promise(2.0), SENSITIVE, "not comparable"),
    ("reads too much", finding(stronger_than_release=True), promise(2.0), SENSITIVE,
     "not comparable"),
    ("reads too much, nothing promised", finding(stronger_than_release=True), promise(math.inf),
     SENSITIVE, "not comparable"),
    ("reads too much, zero promised", finding(stronger_than_release=True), promise(0.0), SENSITIVE,
     "not comparable"),
    ("no leak", finding(NONE, HALF), promise(2.0), SENSITIVE, "silent"),
    ("no leak, nothing promised", finding(NONE, HALF), promise(math.inf), SENSITIVE, "silent"),
    ("no leak, but a bound above 0", finding(NONE), promise(2.0), SENSITIVE, "inconclusive"),
    ("so little that no test could tell", finding(NONE, HALF, least_p=0.05), promise(2.0),
     SENSITIVE, "inconclusive"),
    ("no leak, but above chance", finding(NONE, chance=0.01), promise(2.0), SENSITIVE,
     "inconclusive"),
    ("control silent, too", finding(NONE), promise(2.0), {("extraction", "hit_rate"): False},
     "inconclusive"),
    ("control on another metric", finding(NONE), promise(2.0), {("extraction", "recall"): True},
     "inconclusive"),
    ("control of another attack", finding(NONE), promise(2.0), {("other", "hit_rate"): True},
     "inconclusive"),
    ("control not measured", finding(NONE), promise(2.0), {}, "inconclusive"),
    ("no references", finding(NONE), promise(2.0), None, "inconclusive"),
    ("no test", finding(None), promise(2.0), SENSITIVE, "inconclusive"),
    ("nothing answered", finding(None, None, **UNMEASURED), promise(2.0), SENSITIVE,
     "not measured"),
    ("nothing answered, no references", finding(None, None, **UNMEASURED), promise(2.0), None,
     "not measured"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "guarantee", "sensitive", "word"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_the_verdict_is(
    given: Finding,
    guarantee: Guarantee,
    sensitive: dict[tuple[str, str], bool] | None,
    word: str,
) -> None:
    result = verdict(given, guarantee, sensitive)
    assert result.verdict == word
    assert result.sentence.endswith(".") and "  " not in result.sentence


def test_the_table_has_every_word() -> None:
    words: type[Verdict] = FindingResult.model_fields["verdict"].annotation  # type: ignore[assignment]
    assert {row[4] for row in TABLE} == set(words)


def test_a_leak_where_zero_was_promised_is_never_within_the_promise() -> None:
    """p < 0.05 rejects "the release does not depend on what was planted", which is (0, 0)-DP."""
    for v in (HALF, None):
        assert verdict(finding(v=v), promise(0.0, delta=0.0)).verdict != "consistent"


def test_the_claim_itself_is_what_is_tested() -> None:
    """All 66 right: q^66 = 0.03 at ε = ln q/(1 − q), δ = 0. One such test refutes, two do not."""
    q = 0.03 ** (1 / R)
    claim = promise(math.log(q / (1 - q)), delta=None)
    given = [finding(delta=0.0, metric=metric) for metric in "ab"]
    everywhere = {("extraction", metric): True for metric in "ab"}
    assert verdict(given[0], claim).verdict == "refuted"
    assert {r.verdict for r in judge(given, claim, everywhere)} == {"consistent"}
    reads = replace(given[1], stronger_than_release=True)  # is no test of the claim, and costs none
    words = [r.verdict for r in judge([given[0], reads], claim, everywhere)]
    assert words == ["refuted", "not comparable"]
    shared = [replace(f, test="one") for f in given]  # two views of one test are one test
    assert {r.verdict for r in judge(shared, claim, everywhere)} == {"refuted"}


@pytest.mark.parametrize(
    ("given", "claim"),
    [
        (finding(), promise(2.0)),
        (finding(v=HALF), promise(0.0, delta=0.0)),  # the p-value refutes, the bound is 0
        (finding(delta=3e-4), promise(3.0, delta=None)),  # the bound is for a larger δ
    ],
    ids=["plain", "zero", "pure"],
)
def test_a_refutation_never_names_a_number_below_the_claim(
    given: Finding, claim: Guarantee
) -> None:
    result = verdict(given, claim)
    assert result.verdict == "refuted"
    named = re.findall(r"at least ([\d.]+)", result.sentence)
    assert claim.epsilon is not None
    assert all(float(number) > claim.epsilon for number in named), result.sentence


def test_a_leak_must_survive_the_other_tests_of_its_release() -> None:
    """Holm: 0.03 among four is 0.12; alone it is a leak. 0.01 among four is 0.04."""
    among = [finding(0.03, HALF, metric=metric) for metric in ("a", "b", "c", "d")]
    everywhere = {("extraction", metric): True for metric in "abcd"}
    assert [r.verdict for r in judge(among, promise(2.0), everywhere)] == ["silent"] * 4
    assert verdict(finding(0.03), promise(2.0)).verdict == "refuted"
    one = [finding(p, HALF, metric=m) for p, m in zip((0.9, 0.01, 0.8, 0.7), "abcd", strict=True)]
    one[1] = finding(0.01, metric="b")
    words = [r.verdict for r in judge(one, promise(2.0), everywhere)]
    assert words == ["silent", "refuted", "silent", "silent"]
    words = [r.verdict for r in judge(one, promise(2.0), everywhere, tests=6)]
    assert words[1] == "inconclusive"  # six were to be made, whatever came of two of them


def test_what_a_test_by_itself_would_call_a_leak_is_not_silent() -> None:
    """One-sided below 0.025, two-sided below 0.05: inconclusive where other tests stand beside."""
    for p, sides, word in (
        (0.024, 1, "inconclusive"), (0.026, 1, "silent"),
        (0.049, 2, "inconclusive"), (0.051, 2, "silent"),
    ):  # fmt: skip
        given = [finding(p, HALF, sides=sides, chance=0.28), finding(0.9, metric="other")]
        assert judge(given, promise(2.0), SENSITIVE, tests=4)[0].verdict == word


# --- ranks: another kind of bound


def ranked(rank: float, n: int, space: float = 1000.0, **changes: Any) -> Finding:
    """A finding whose ε comes from the (lower median) rank of n secrets."""
    alpha = 0.05 if n == 1 else 0.025
    rank_bound = EpsilonLower(
        value=max(0.0, math.log(alpha * space / rank)), method="rank", hypothesis="none",
        unit="user", relation="add_or_remove", delta=0.0, rank=rank, space=space, n=n,
    )  # fmt: skip
    largest = math.log(alpha * space)
    power = Power(smallest_rate=None, largest_epsilon=largest, n=n)
    return finding(epsilon_lower=rank_bound, power=power, k=None, **changes)


@pytest.mark.parametrize(
    ("rank", "n", "refuted"),
    [
        (1, 1, math.log(50)),  # e^ε · 1/1000 = 0.05
        (2, 1, math.log(25)),
        (1, 3, math.log(25)),  # the lower median of three has at most twice that probability
        (5, 3, math.log(5)),
    ],
)
def test_a_rank_refutes_what_gives_it_less_than_one_chance_in_twenty(
    rank: float, n: int, refuted: float
) -> None:
    for epsilon, word in ((refuted - 1e-6, "refuted"), (refuted + 1e-6, None)):
        result = verdict(ranked(rank, n), promise(epsilon, delta=None))
        assert (result.verdict == "refuted") is (word == "refuted")
        assert result.verdict in (word, "consistent", "inconclusive")
    result = verdict(ranked(rank, n), promise(0.9 * refuted, delta=None))
    assert f"at least {refuted:.3g}" in result.sentence


def test_a_claim_with_delta_is_tested_at_that_delta_by_ranks_too() -> None:
    """e^ε/1000 + 0.03 = 0.05: rank 1 refutes up to ln 20, not ln 50."""
    one = ranked(1, 1)
    assert one.epsilon_lower is not None
    given = replace(one, epsilon_lower=one.epsilon_lower.model_copy(update={"delta": 0.03}))
    below, above = (promise(math.log(20) + x, delta=0.03) for x in (-1e-6, 1e-6))
    assert verdict(given, below).verdict == "refuted"
    assert verdict(given, above).verdict == "consistent"
    assert f"at least {math.log(20):.3g}" in verdict(given, promise(1.0, delta=0.03)).sentence


def test_silence_of_ranks_says_which_epsilon_they_could_have_shown() -> None:
    sentence = verdict(
        ranked(900, 3, p_value=0.7, interval=EXPOSED, chance=7.0), promise(2.0)
    ).sentence
    assert f"up to {math.log(25):.3g} nats" in sentence


# --- readings of one test, both signs, and candidates that differ in themselves


def area(low: float, value: float, high: float) -> Interval:
    return Interval(value, low, high, 200, 0.95, "binomial tail means, two-sided")


def membership(value: Interval, blind: tuple[float, float] | None = None, **more: Any) -> Finding:
    given = None if blind is None else Control(value=sum(blind) / 2, ci=blind, n=200)
    fields = {"metric": "auc", "unit": "AUC", "k": None, "chance": 0.5, "sides": 2, "blind": given}
    return finding(interval=value, **{**fields, **more})


LOW_AREA = area(0.2, 0.3, 0.4)
AUC = {("extraction", "auc"): True}


def test_a_leak_of_either_sign_is_a_leak_only_where_both_signs_were_tested() -> None:
    assert verdict(membership(LOW_AREA), promise(math.inf), AUC).verdict == "consistent"
    below = finding(LEAK, HALF, chance=0.5)  # 30 of 100 where half was to be expected
    assert verdict(below, promise(math.inf)).verdict == "silent"
    assert verdict(finding(chance=0.3), promise(math.inf)).verdict == "silent"
    assert verdict(finding(chance=0.29), promise(math.inf)).verdict == "consistent"


def test_a_two_sided_test_treats_both_signs_alike() -> None:
    """p = 0.04 and another test beside it: 0.08 when adjusted."""
    words = []
    for value in (area(0.6, 0.7, 0.8), LOW_AREA):
        beside = finding(0.04, metric="other")
        given = [membership(value, p_value=0.04), beside]
        words.append(judge(given, promise(math.inf), AUC)[0].verdict)
    assert words[0] == "inconclusive"
    assert words[0] == words[1]


@pytest.mark.parametrize(
    ("value", "blind", "word"),
    [
        (area(0.8, 0.9, 0.95), None, "consistent"),
        (area(0.8, 0.9, 0.95), (0.4, 0.6), "consistent"),  # texts tell nothing apart
        (area(0.8, 0.9, 0.95), (0.5, 0.9), "consistent"),
        (area(0.8, 0.9, 0.95), (0.55, 0.75), "consistent"),  # the model knows more than the texts
        (area(0.05, 0.1, 0.2), (0.55, 0.75), "consistent"),
        (area(0.05, 0.1, 0.2), (0.25, 0.45), "consistent"),
        (area(0.05, 0.1, 0.2), (0.15, 0.45), "inconclusive"),
        (area(0.8, 0.9, 0.95), (0.55, 0.85), "inconclusive"),
        (area(0.8, 0.9, 0.95), (0.93, 1.0), "inconclusive"),
    ],
)
def test_what_texts_tell_apart_without_the_model_is_no_finding(
    value: Interval, blind: tuple[float, float] | None, word: str
) -> None:
    result = verdict(membership(value, blind), promise(math.inf), AUC)
    assert result.verdict == word
    assert ("without the model" in result.sentence) is (word == "inconclusive")


@pytest.mark.parametrize(
    ("value", "p"), [(area(0.55, 0.65, 0.75), LEAK), (area(0.4, 0.5, 0.6), NONE)]
)
def test_a_model_that_is_worse_than_the_blind_classifier_finds_nothing(
    value: Interval, p: float
) -> None:
    given = membership(value, (0.85, 0.99), p_value=p)
    assert verdict(given, promise(math.inf), AUC).verdict == "inconclusive"


def test_a_blind_classifier_that_is_as_good_with_the_other_sign_confounds() -> None:
    given = membership(area(0.05, 0.1, 0.2), (0.8, 0.95))
    assert verdict(given, promise(math.inf), AUC).verdict == "inconclusive"


def test_a_verdict_keeps_the_blind_baseline_the_curve_and_the_sides() -> None:
    curve = ((0.0, 0.2), (1.0, 1.0))
    given = replace(membership(AREA, (0.4, 0.6)), roc=curve)
    result = verdict(given, promise(math.inf), AUC)
    assert (result.blind, result.roc, result.sides) == (given.blind, list(curve), 2)


def test_findings_without_a_test_neither_count_nor_shift_the_others() -> None:
    metrics = {("extraction", metric): True for metric in "abcd"}
    given = [
        finding(None, metric="a"), finding(0.03, HALF, metric="b"), finding(None, metric="c"),
        finding(0.9, HALF, metric="d"),
    ]  # fmt: skip
    words = [r.verdict for r in judge(given, promise(2.0), metrics)]
    assert words == ["inconclusive", "silent", "inconclusive", "silent"]  # 2 · 0.03 = 0.06
    given[1] = finding(0.024, metric="b")
    assert judge(given, promise(2.0), metrics)[1].verdict == "refuted"


def test_the_level_is_five_percent_and_strict() -> None:
    assert verdict(finding(0.0499), promise(2.0)).verdict == "refuted"
    assert verdict(finding(0.05, HALF), promise(2.0)).verdict == "silent"


@pytest.mark.parametrize(("tests", "word"), [(1, "silent"), (2, "inconclusive")])
def test_what_no_outcome_could_have_shown_is_not_silent(tests: int, word: str) -> None:
    """At best p = 0.03: 0.06 beside another test of the run, whether or not that was made."""
    given = finding(NONE, v=HALF, least_p=0.03)
    (result,) = judge([given], promise(2.0), SENSITIVE, tests)
    assert result.verdict == word
    assert ("Too little was measured" in result.sentence) == (word == "inconclusive")


@pytest.mark.parametrize("value", [area(0.6, 0.7, 0.8), LOW_AREA])
def test_an_interval_beside_chance_is_not_silent_on_either_side(value: Interval) -> None:
    for interval, word in ((value, "inconclusive"), (area(0.4, 0.45, 0.6), "silent")):
        given = membership(interval, p_value=0.2, epsilon_lower=None)
        assert verdict(given, promise(math.inf), AUC).verdict == word


def test_no_findings_no_verdicts() -> None:
    assert judge([], promise(2.0), SENSITIVE) == []


def test_a_verdict_carries_what_it_was_judged_on() -> None:
    given = finding()
    result = verdict(given, promise(2.0))
    assert (result.value, result.ci, result.k, result.n) == (0.3, given.interval.ci, 30, 100)
    assert (result.p_value, result.chance, result.control) == (LEAK, 0.25, given.control)
    assert (result.epsilon_lower, result.power) == (given.epsilon_lower, given.power)


@pytest.mark.parametrize(
    ("given", "guarantee", "words"),
    [
        (finding(), promise(2.0), ["30 of 100 generations were planted secrets", "0 were twins'",
         "ε = 2 nats"]),
        (finding(v=MOST), promise(2.0), ["too small to refute"]),
        (finding(NONE, HALF), promise(2.0), ["Not told apart from chance", "at most 38.4 %",
         "4.66 %"]),
        (finding(), promise(None), ["unknown"]),
        (finding(), promise(math.inf), ["nothing was promised"]),
        (finding(), promise(2.0, **RENYI), ["Rényi", "order 2"]),
        (finding(), promise(2.0, unit="record"), ["per record", "per user"]),
        (finding(stronger_than_release=True), promise(2.0), ["samples only", "no evidence"]),
        (finding(NONE), promise(2.0), ["30 of 100"]),
        (finding(observation="7 of 29 planted secrets came up, and 0 of 31 twins."), promise(2.0),
         ["7 of 29 planted secrets", "0 of 31 twins"]),
        (finding(None, untested="No coin decides it."), promise(2.0), ["No coin decides it."]),
        (finding(None), promise(2.0), ["Too little was measured for any test."]),
        (finding(v=MOST), promise(3.1), ["could show an ε of 3.06 at most", "3.1 allows"]),
        (finding(None, None, **UNMEASURED), promise(2.0), ["Nothing was answered"]),
        (finding(None, None, **{**UNMEASURED, "interval": NEEDS}), promise(2.0),
         ["It needs 1000 controls."]),
        (finding(None, None, **{**UNMEASURED, "observation": "So few say nothing."}), promise(2.0),
         ["So few say nothing."]),
    ],
)  # fmt: skip
def test_sentences_say_why(given: Finding, guarantee: Guarantee, words: list[str]) -> None:
    sentence = verdict(given, guarantee).sentence
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.0295, "2.95 %"), (1e-5, "1.0e-05"), (1e-4, "0.01 %")],
)
def test_shares_are_told_in_percent(share: float, words: str) -> None:
    assert percent(share) == words


# --- the headline


def released(
    defense: str, guarantee: Guarantee, findings: list[Finding], perplexity: float, **changes: Any
) -> ReleaseResult:
    fields = {name: getattr(guarantee, name) for name in GuaranteeResult.model_fields}
    spent = changes.pop("spent", [])
    session = SessionResult(
        purpose="utility", queries=9, answered=9, budget=None, remaining=None, stopped_at=None,
        epsilon_spent=spent,
    )  # fmt: skip
    measure = Measure(value=perplexity, ci=None, n=9, method="by hand", unit="perplexity")
    return ReleaseResult(
        defense=defense, parameters={}, seed=0, role="audited",
        **{"reference": False, **changes},
        guarantee=GuaranteeResult(**fields),
        utility={"perplexity": measure},
        cost=Cost(train_tokens=0, queries=9, seconds=0.0),
        sessions=[session, session.model_copy(update={"epsilon_spent": spent[:1]})],
        findings=judge(findings, guarantee, SENSITIVE),
    )  # fmt: skip


SUBMIX = promise(
    2.0, unit="part", relation="removed", basis="data-dependent", delta=None, alpha=2.0
)
QUIET = {"interval": clopper_pearson(0, 100), "k": 0, "chance": 3e-4}


def test_the_headline_says_what_leaked_was_promised_spent_and_what_is_left_of_use() -> None:
    said = headline(
        [
            released("submix", SUBMIX, [finding(NONE, HALF, **QUIET)], 38.2, spent=[0.21, 1.46]),
            released("none", promise(math.inf), [finding()], 19.7, reference=True),
            released("public", promise(0.0), [finding(NONE, HALF, **QUIET)], 55.5, reference=True),
        ]
    )
    for words in (
        "submix: extraction finds no leak (hit rate 0 of 100, at most 2.95 %",
        "undefended 30 of 100",
        "ε = 2 nats per part (removed)",
        "Rényi order 2",
        "data-dependent",
        "spent at most 1.46",
        "Perplexity 38.2 (undefended 19.7, public 55.5)",
    ):
        assert words in said, said
    assert "public:" not in said and "none:" not in said  # references are only laid beside it


EXPOSED = Interval(7.5, 6.0, 9.0, 12, 0.95, "order statistics")
AREA = Interval(0.812, 0.7, 0.9, 60, 0.95, "binomial tail means")


@pytest.mark.parametrize(
    ("given", "guarantee", "words"),
    [
        (finding(), promise(2.0), "extraction refutes the claimed guarantee"),
        (finding(v=MOST), promise(2.0), "extraction finds a leak (hit rate 30 of 100)"),
        (finding(), promise(math.inf), "Nothing was promised"),
        (finding(), promise(None), "What was promised is unknown"),
        (finding(stronger_than_release=True), promise(2.0),
         "extraction asks more than the release gives"),
        (finding(NONE, metric="other"), promise(2.0), "extraction is inconclusive"),
        (finding(), promise(2.0), "δ = 1e-06"),
        (finding(unit="bits", k=None, interval=EXPOSED), promise(math.inf), "(hit rate 7.5 bits)"),
        (finding(unit="AUC", k=None, interval=AREA), promise(math.inf), "(hit rate 0.812)"),
    ],
)  # fmt: skip
def test_the_headline_of_one_release(given: Finding, guarantee: Guarantee, words: str) -> None:
    assert words in headline([released("mine", guarantee, [given], 20.0)])


def test_the_headline_of_an_attack_that_was_not_answered() -> None:
    """A session whose budget is too small for one generation: the release gives samples."""
    unanswered = finding(None, None, **UNMEASURED)
    said = headline([released("mine", promise(2.0), [unanswered], 20.0)])
    assert "asks more" not in said and "not measured" in said


def test_the_headline_quotes_the_first_finding_that_leaks() -> None:
    """And lays the same metric of the undefended model beside it."""
    quiet = finding(NONE, metric="a", k=0, interval=clopper_pearson(0, 100))
    loud = finding(metric="b", k=41, interval=clopper_pearson(41, 100))
    undefended = finding(metric="b", k=77, interval=clopper_pearson(77, 100))
    said = headline(
        [
            released("mine", promise(math.inf), [quiet, loud], 20.0),
            released("none", promise(math.inf), [quiet, undefended], 20.0, reference=True),
        ]
    )
    assert "extraction finds a leak (b 41 of 100, undefended 77 of 100)" in said


def test_the_headline_names_every_attack() -> None:
    given = [finding(), finding(NONE, attack="exposure", test="ranks")]
    said = headline([released("mine", promise(2.0), given, 20.0)])
    assert "mine: extraction refutes the claimed guarantee; exposure is inconclusive" in said


def test_the_headline_writes_a_large_perplexity_as_people_do() -> None:
    said = headline([released("uniform", promise(0.0), [finding(NONE)], 1024.0)])
    assert "e+" not in said, said


def test_every_audited_release_is_in_the_headline() -> None:
    releases = [released(name, promise(2.0), [finding()], 20.0) for name in ("one", "two")]
    said = headline(releases)
    assert "one: " in said and "two: " in said


def test_a_leak_is_whatever_was_found_even_if_it_cannot_be_compared() -> None:
    given = {
        word: verdict(f, g, s)
        for _, f, g, s, word in TABLE
    }  # fmt: skip
    assert {w for w, r in given.items() if leaks(r)} == {"refuted", "consistent", "not comparable"}
