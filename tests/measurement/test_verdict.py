"""Every verdict word, and what it takes to earn it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from audit.findings import Finding
from audit.guarantee import Guarantee
from audit.results import (
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
from audit.statistics import one_run
from audit.statistics.interval import clopper_pearson
from audit.verdict import headline, judge, leaks, percent

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
        "k": 30,
        "chance": 0.3,
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
UNMEASURED = {"interval": clopper_pearson(0, 0), "k": 0, "control": None}

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
    ("no leak", finding(NONE), promise(2.0), SENSITIVE, "silent"),
    ("no leak, nothing promised", finding(NONE), promise(math.inf), SENSITIVE, "silent"),
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
    words = FindingResult.model_fields["verdict"].annotation.__args__  # type: ignore[union-attr]
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
    among = [finding(0.03, metric=metric) for metric in ("a", "b", "c", "d")]
    everywhere = {("extraction", metric): True for metric in "abcd"}
    assert [r.verdict for r in judge(among, promise(2.0), everywhere)] == ["silent"] * 4
    assert verdict(finding(0.03), promise(2.0)).verdict == "refuted"
    one = [finding(p, metric=m) for p, m in zip((0.9, 0.01, 0.8, 0.7), "abcd", strict=True)]
    words = [r.verdict for r in judge(one, promise(2.0), everywhere)]
    assert words == ["silent", "refuted", "silent", "silent"]


def test_findings_without_a_test_neither_count_nor_shift_the_others() -> None:
    metrics = {("extraction", metric): True for metric in "abcd"}
    given = [
        finding(None, metric="a"), finding(0.03, metric="b"), finding(None, metric="c"),
        finding(0.9, metric="d"),
    ]  # fmt: skip
    words = [r.verdict for r in judge(given, promise(2.0), metrics)]
    assert words == ["inconclusive", "silent", "inconclusive", "silent"]  # 2 · 0.03 = 0.06
    given[1] = finding(0.024, metric="b")
    assert judge(given, promise(2.0), metrics)[1].verdict == "refuted"


def test_the_level_is_five_percent_and_strict() -> None:
    assert verdict(finding(0.0499), promise(2.0)).verdict == "refuted"
    assert verdict(finding(0.05), promise(2.0)).verdict == "silent"


def test_no_findings_no_verdicts() -> None:
    assert judge([], promise(2.0), SENSITIVE) == []


def test_a_verdict_carries_what_it_was_judged_on() -> None:
    given = finding()
    result = verdict(given, promise(2.0))
    assert (result.value, result.ci, result.k, result.n) == (0.3, given.interval.ci, 30, 100)
    assert (result.p_value, result.chance, result.control) == (LEAK, 0.3, given.control)
    assert (result.epsilon_lower, result.power) == (given.epsilon_lower, given.power)


@pytest.mark.parametrize(
    ("given", "guarantee", "words"),
    [
        (finding(), promise(2.0), ["30 of 100 generations were planted secrets", "0 were twins'",
         "ε = 2 nats"]),
        (finding(v=MOST), promise(2.0), ["too small to refute"]),
        (finding(NONE), promise(2.0), ["No more than chance", "at most 38.4 %", "4.66 %"]),
        (finding(), promise(None), ["unknown"]),
        (finding(), promise(math.inf), ["nothing was promised"]),
        (finding(), promise(2.0, **RENYI), ["Rényi", "order 2"]),
        (finding(), promise(2.0, unit="record"), ["per record", "per user"]),
        (finding(stronger_than_release=True), promise(2.0), ["samples only", "no evidence"]),
        (finding(NONE), promise(2.0), ["30 of 100"]),
        (finding(metric="recall", interval=clopper_pearson(7, 29), k=7,
         control=Control(value=0.0, ci=None, k=0, n=31)), promise(2.0),
         ["7 of 29 planted secrets", "0 of 31 twins"]),
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
            released("submix", SUBMIX, [finding(NONE, **QUIET)], 38.2, spent=[0.21, 1.46]),
            released("none", promise(math.inf), [finding()], 19.7, reference=True),
            released("public", promise(0.0), [finding(NONE, **QUIET)], 55.5, reference=True),
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


@pytest.mark.parametrize(
    ("given", "guarantee", "words"),
    [
        (finding(), promise(2.0), "extraction refutes the claimed guarantee"),
        (finding(v=MOST), promise(2.0), "extraction finds a leak (hit rate 30 of 100)"),
        (finding(), promise(math.inf), "Nothing was promised"),
        (finding(), promise(None), "What was promised is unknown"),
        (finding(None, None, **UNMEASURED), promise(2.0), "extraction was not measured"),
        (finding(stronger_than_release=True), promise(2.0), "extraction was not measured"),
        (finding(NONE, metric="other"), promise(2.0), "extraction is inconclusive"),
        (finding(), promise(2.0), "δ = 1e-06"),
    ],
)
def test_the_headline_of_one_release(given: Finding, guarantee: Guarantee, words: str) -> None:
    assert words in headline([released("mine", guarantee, [given], 20.0)])


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
