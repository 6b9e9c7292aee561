"""Claims of the papers: verdicts follow from results, flip with them, and cover every row."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.plugins import registry
from audit.results.schema import Measure, ReleaseResult, Results, SessionResult
from audit.run.sweep.grid import grid_of
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.stopped_rate import Series, stopped_rate
from experiments import claim as claims
from experiments import page
from experiments.claim import merged
from experiments.judge import Judged, Verdict, judge, overall
from experiments.measures import values
from tests.results.documents import document, finding

Perplexities = Mapping[str, Sequence[float]]


def release(defense: str, seed: int, perplexity: float, **changes: Any) -> ReleaseResult:
    utility = {"perplexity": Measure(value=perplexity, ci=None, n=1, method="m", unit="perplexity")}
    fields = {"utility": utility, "parameters": {}, "findings": [], **changes}
    return document(defense=defense, seed=seed, **fields).releases[0]


def results(of: Perplexities) -> Results:
    """A sweep in which each setting has these perplexities, one a seed."""
    rows = []
    for setting, seeds in of.items():
        name, _, rest = setting.partition(":")
        given = {k: float(v) for k, v in (pair.split("=") for pair in rest.split(",") if pair)}
        rows += [release(name, i, p, parameters=given) for i, p in enumerate(seeds)]
    return document().model_copy(update={"releases": rows})


def runs_of(rows: Sequence[ReleaseResult]) -> dict[str, Results]:
    return {"main": document().model_copy(update={"releases": list(rows)})}


def judged(statement: Mapping[str, Any], of: Perplexities) -> Judged:
    (one,) = judge([{"says": "s", **statement}], {"main": results(of)})
    return one


SESSION: Any = {"queries": 9, "answered": 9, "budget": 9, "remaining": 0, "epsilon_spent": [],
                "spent_curve": []}  # fmt: skip
LESS = {"less": "a perplexity", "than": "b perplexity"}


SAME = {"same": "a perplexity", "as": "b perplexity", "within": 0.1}
LOSSES = {"none": (2.0,) * 3, "public": (16.0,) * 3}
VERDICTS: dict[str, tuple[dict[str, Any], Perplexities, str]] = {
    "less over seeds": (LESS, {"a": (10, 11, 10.5), "b": (20, 21, 22)}, "confirmed"),
    "more over seeds": (LESS, {"a": (20, 21, 22), "b": (10, 11, 10.5)}, "contradicted"),
    "overlapping": (LESS, {"a": (10, 30, 20), "b": (20, 21, 22)}, "inconclusive"),
    "one seed": (LESS, {"a": (10,), "b": (20,)}, "inconclusive"),
    "two seeds, t is 12.7": (LESS, {"a": (10, 11), "b": (20, 33)}, "inconclusive"),
    "equal values, no spread": (LESS, {"a": (10,) * 3, "b": (20,) * 3}, "inconclusive"),
    "sign of five: 2 · 2⁻⁵": (LESS, {"a": (10,) * 5, "b": (20,) * 5}, "inconclusive"),
    "sign of six: 2 · 2⁻⁶": (LESS, {"a": (10,) * 6, "b": (20,) * 6}, "confirmed"),
    "sign of six, more": (LESS, {"a": (30,) * 6, "b": (20,) * 6}, "contradicted"),
    "six alike": (LESS, {"a": (20,) * 6, "b": (20,) * 6}, "inconclusive"),
    "equal but for rounding, three": (
        LESS, {"a": (10.0, 20.0, 30.0), "b": (20.0, 40.0, 60.0)}, "inconclusive"),
    "equal but for rounding, six": (
        LESS, {x: [n * 10.0 * i for i in range(1, 7)] for x, n in (("a", 1), ("b", 2))},
        "confirmed"),
    "follows from settings": (
        {**LESS, "seedless": True}, {"a": (10,) * 3, "b": (20,) * 3}, "confirmed"),
    "settings must be equal": (
        {**LESS, "seedless": True}, {"a": (10, 11), "b": (math.inf,) * 2}, "inconclusive"),
    "same": (SAME, {"a": (10.0, 10.2, 9.9), "b": (10.1, 10.0, 10.05)}, "confirmed"),
    "not the same": (SAME, {"a": (15.0, 15.3, 14.8), "b": (10.1, 10.0, 10.05)}, "contradicted"),
    "perhaps the same": (SAME, {"a": (9.0, 11.5, 10.0), "b": (10.1, 10.0, 10.05)}, "inconclusive"),
    "same of five pairs": (SAME, {"a": (10,) * 5, "b": (10,) * 5}, "inconclusive"),
    "same of six pairs": (SAME, {"a": (10,) * 6, "b": (10,) * 6}, "confirmed"),
    "at most": ({"at_most": "a perplexity", "value": 5.0}, {"a": (1.0, 1.1, 1.2)}, "confirmed"),
    "above": ({"at_most": "a perplexity", "value": 5.0}, {"a": (6.0, 6.1, 6.2)}, "contradicted"),
    "losses": (
        {"less": "a gain", "than": "b gain"},
        {**LOSSES, "a": (30.0, 33, 31), "b": (20.0, 20, 21)}, "confirmed"),
}  # fmt: skip


def test_verdicts_follow_from_values_over_seeds() -> None:
    found = {name: judged(statement, of).verdict for name, (statement, of, _) in VERDICTS.items()}
    assert found == {name: verdict for name, (_, _, verdict) in VERDICTS.items()}


def test_the_interval_of_an_order_is_student_s_of_paired_logarithms() -> None:
    one = judged(LESS, {"a": (10, 12, 11), "b": (20, 18, 26)})
    differences = [math.log(20 / 10), math.log(18 / 12), math.log(26 / 11)]
    mean = sum(differences) / 3
    error = math.sqrt(sum((d - mean) ** 2 for d in differences) / 2 / 3)
    assert one.difference == pytest.approx(mean)
    assert one.low == pytest.approx(mean - 4.302653 * error, rel=1e-6)
    assert one.high == pytest.approx(mean + 4.302653 * error, rel=1e-6)


@given(st.lists(st.floats(1.5, 50), min_size=3, max_size=5), st.floats(1.2, 3))
def test_swapping_the_sides_flips_the_verdict(base: list[float], factor: float) -> None:
    other = [p * factor * (1 + i / 10) for i, p in enumerate(base)]
    forth = judged(LESS, {"a": base, "b": other}).verdict
    back = judged(LESS, {"a": other, "b": base}).verdict
    flipped = {Verdict.CONFIRMED: Verdict.CONTRADICTED, Verdict.INCONCLUSIVE: Verdict.INCONCLUSIVE}
    assert forth in flipped and back == flipped[forth]


def test_contradicting_one_of_many_statements_takes_more() -> None:
    of = {"main": results({"a": (20, 23, 27), "b": (16, 17, 18)})}
    alone = judge([{"says": "s", **LESS}], of)
    among = judge([{"says": "s", **LESS}] * 10, of)
    assert alone[0].verdict == "contradicted"
    assert {one.verdict for one in among} == {"inconclusive"}


@pytest.mark.parametrize(
    ("kind", "k", "verdict"),
    [
        ("at_least", 285, "confirmed"),
        ("at_least", 271, "inconclusive"),
        ("at_least", 200, "contradicted"),
        ("at_most", 200, "confirmed"),
        ("at_most", 285, "contradicted"),
    ],
)
def test_a_share_of_trials_is_pooled_over_seeds(kind: str, k: int, verdict: str) -> None:
    rows = [
        release("a", seed, 9.0, findings=[finding(k=k // 3 + (seed < k % 3), n=100, value=k / 300)])
        for seed in range(3)
    ]
    of = document().model_copy(update={"releases": rows})
    statement = {"says": "s", kind: "a extraction/hit_rate", "value": 0.9}
    assert judge([statement], {"main": of})[0].verdict == verdict


def in_sessions(
    *counts: tuple[int, int, bool], setting: str = "a", may_stop: bool = True
) -> list[ReleaseResult]:
    """One release a seed, with k of n generations and whether its session stopped, out of 400."""

    def one(seed: int, k: int, n: int, stopped: bool) -> ReleaseResult:
        fields = {**SESSION, "budget": 9 if may_stop else None}
        own = SessionResult(purpose="extraction", stopped_at=n if stopped else None, **fields)
        found = finding(attack="extraction", k=k, n=n, value=k / n if n else None)
        return release(setting, seed, 9.0, findings=[found], sessions=[own])

    return list(starmap(one, ((seed, *one) for seed, one in enumerate(counts))))


def judged_in_sessions(statement: Mapping[str, Any], rows: list[ReleaseResult]) -> Judged:
    undefended = in_sessions(*[(400, 400, False)] * 6, setting="none", may_stop=False)
    of = runs_of([*rows, *undefended])
    return judge([{"says": "s", **statement}], of)[0]


@pytest.mark.parametrize(
    ("kind", "counts", "verdict"),
    [
        ("at_most", [(1, 1, True), (0, 400, False), (0, 400, False)], "inconclusive"),
        ("at_most", [(0, 400, True), (0, 400, False), (0, 400, False)], "confirmed"),  # not cut
        ("at_most", [(0, 390, True), (0, 400, False), (0, 400, False)], "confirmed"),
        ("at_most", [(0, 60, True), (0, 400, False), (0, 400, False)], "inconclusive"),
        ("at_most", [(200, 390, True), (100, 400, False), (90, 400, False)], "contradicted"),
        ("at_most", [(40, 400, False), (0, 399, True), (0, 400, False)], "inconclusive"),
        ("at_most", [(0, 0, True), (0, 400, False), (0, 400, False)], "inconclusive"),
        ("at_least", [(399, 399, True), (400, 400, False), (360, 400, False)], "confirmed"),
        ("at_least", [(0, 60, True), (200, 400, False), (200, 400, False)], "contradicted"),
        ("at_least", [(1, 1, True), (400, 400, False), (400, 400, False)], "inconclusive"),
    ],
)
def test_stoppable_sessions_are_judged_at_any_time(kind: str, counts: Any, verdict: str) -> None:
    bound = 0.03 if kind == "at_most" else 0.7
    one = judged_in_sessions({kind: "a extraction/hit_rate", "value": bound}, in_sessions(*counts))
    assert one.verdict == verdict
    rates = [k / n for k, n, _ in counts if n]
    side = -1 if kind == "at_most" else 1
    assert one.difference == pytest.approx(side * (sum(rates) / len(rates) - bound))
    assert one.test.startswith(", ".join(f"{k} of {n}" for k, n, _ in counts) + " trials, mixture")


def test_which_interval_is_used_does_not_depend_on_whether_a_session_stopped() -> None:
    of = {"at_most": "a extraction/hit_rate", "value": 0.03}
    whole = judged_in_sessions(of, in_sessions((0, 400, False), (1, 400, False)))
    stopped = judged_in_sessions(of, in_sessions((0, 400, True), (1, 400, False)))
    assert (whole.low, whole.test) == (stopped.low, stopped.test)


@pytest.mark.parametrize("kind", ["at_most", "at_least"])
def test_the_trial_that_was_cut_is_held_against_the_statement(kind: str) -> None:
    """`at_most` takes it for a hit, `at_least` for a miss; the other end the reverse."""
    one = judged_in_sessions(
        {kind: "a extraction/hit_rate", "value": 0.5}, in_sessions((3, 9, True), (100, 400, False))
    )
    rest = Series(100, 400)
    least, most = (
        stopped_rate([Series(3, 10), rest]).low,
        stopped_rate([Series(4, 10), rest]).high,
    )
    assert least is not None and most is not None
    both = (0.5 - most, 0.5 - least) if kind == "at_most" else (least - 0.5, most - 0.5)
    assert (one.low, one.high) == pytest.approx(both)


def test_rates_of_stopped_sessions_are_compared_by_intervals_that_hold_together() -> None:
    """A session that stops at its first hit has a share above its rate."""
    rows = [
        *in_sessions((1, 3, True), (1, 30, True)),
        *in_sessions((2, 400, False), (4, 400, False), setting="b"),
    ]
    each = 1 - 0.05 / 2  # two settings
    high = stopped_rate([Series(2, 4), Series(2, 31)], each).high
    low = stopped_rate([Series(2, 400), Series(4, 400)], each).low
    assert high is not None and low is not None
    most = high - low
    names = {"same": "a extraction/hit_rate", "as": "b extraction/hit_rate"}
    one = judged_in_sessions({**names, "within": 0.9}, rows)
    assert one.low == pytest.approx(0.9 - most) and one.verdict == "confirmed"
    assert one.difference == pytest.approx(0.9 - ((1 / 3 + 1 / 30) / 2 - 0.0075))
    order = {"less": "b extraction/hit_rate", "than": "a extraction/hit_rate", "times": 2}
    one = judged_in_sessions(order, rows)
    assert one.high == pytest.approx(2 * high - low)
    assert one.verdict == "inconclusive"
    assert one.test.startswith("1 of 3, 1 of 30 trials, mixture likelihood ratio against 2 of 400")
    with pytest.raises(UsageError, match="a session stopped"):
        judged_in_sessions({"less": "a extraction/hit_rate", "than": "b bleu4"}, [
            *rows[:2], *(r.model_copy(update={"utility": {"bleu4": r.utility["perplexity"]}})
                         for r in rows[2:])])  # fmt: skip


def test_a_share_of_a_session_without_an_end_is_pooled() -> None:
    rows = in_sessions((0, 60, False), (2, 60, False), may_stop=False)
    one = judged_in_sessions({"at_most": "a extraction/hit_rate", "value": 0.5}, rows)
    assert one.test == "2 of 120 trials of 2 seeds, Clopper-Pearson"
    most = clopper_pearson(2, 120).high
    assert most is not None and one.low == pytest.approx(0.5 - most)


def test_a_session_that_stopped_at_once_has_no_rate_and_any() -> None:
    rows = in_sessions((0, 0, True), (0, 400, False), (0, 400, False))
    one = judged_in_sessions({"at_most": "a extraction/hit_rate", "value": 0.5}, rows)
    assert one.measured == {"a extraction/hit_rate": (None, 0.0, 0.0)}
    assert page.figures(one.document).startswith("a extraction/hit_rate: no trial, 0, 0; ")
    whole = in_sessions((400, 400, False), (400, 400, False), setting="none", may_stop=False)
    stopped = in_sessions((3, 9, True), (100, 400, False))
    seen = values("a extraction/hit_rate", runs_of(stopped + whole))
    assert seen.values == (pytest.approx(1 / 3), 0.25) and seen.cut == (True, False)
    with pytest.raises(UsageError, match="not measured"):
        judged_in_sessions({"at_most": "a extraction/hit_rate", "value": 0.5},
                           in_sessions((0, 0, False)))  # fmt: skip
    of_none = judged_in_sessions({"at_most": "a extraction/hit_rate", "value": 0.5}, rows[:1])
    assert (of_none.verdict, of_none.low) == ("inconclusive", -0.5)


def test_what_is_no_share_of_trials_is_refused_of_a_stopped_session() -> None:
    rows = in_sessions((1, 9, True), (9, 400, False))
    found = rows[0].findings[0].model_copy(update={"k": None})
    rows = [rows[0].model_copy(update={"findings": [found]}), rows[1]]
    with pytest.raises(UsageError, match="stopped before it was measured"):
        judged_in_sessions({"at_most": "a extraction/hit_rate", "value": 0.5}, rows)


def test_how_far_two_are_from_the_same_does_not_depend_on_their_order() -> None:
    of = {"a": (10.5, 10.6, 10.4), "b": (10, 10.1, 10)}
    names = ("a perplexity", "b perplexity")
    one, back = (judged({"same": x, "as": y, "within": 0.1}, of) for x, y in (names, names[::-1]))
    assert (one.low, one.high, one.verdict) == pytest.approx((back.low, back.high, back.verdict))
    mean = sum(math.log(a / b) for a, b in zip(of["a"], of["b"], strict=True)) / 3
    assert one.difference == pytest.approx(0.1 - mean) and back.difference == one.difference


def test_each_of_many_statements_is_confirmed_at_95_percent() -> None:
    """Contradicting takes more among many; also of shares, and of equal values."""
    of = {"main": results({"a": (16, 17, 18), "b": (20, 23, 27)})}
    assert {one.verdict for one in judge([{"says": "s", **LESS}] * 10, of)} == {"confirmed"}
    rows = [release("a", 0, 9.0, findings=[finding(k=258, n=300, value=0.86)])]
    share = {"says": "s", "at_least": "a extraction/hit_rate", "value": 0.9}
    equal = {"main": results({"a": (30,) * 6, "b": (20,) * 6})}
    pooled = runs_of(rows)
    for statement, runs in ((share, pooled), ({"says": "s", **LESS}, equal)):
        assert judge([statement], runs)[0].verdict == "contradicted"
        assert judge([statement] * 10, runs)[0].verdict == "inconclusive"


def test_a_perplexity_is_not_compared_with_what_is_none() -> None:
    rows = [release("a", 0, 9.0, findings=[finding(k=1, n=3, value=1 / 3)])]
    of = runs_of(rows)
    with pytest.raises(UsageError, match="cannot be compared"):
        judge([{"says": "s", "less": "a perplexity", "than": "a extraction/hit_rate"}], of)


@pytest.mark.parametrize(("times", "verdict"), [(2, "confirmed"), (0.5, "contradicted")])
def test_an_order_may_be_of_a_multiple(times: float, verdict: str) -> None:
    """10 is below twice 8, and not below half of it."""
    of = {"a": (10, 10.5, 9.8), "b": (8, 8.1, 8.3)}
    one = judged({**LESS, "times": times}, of)
    assert one.verdict == verdict
    mean = sum(math.log(times * b / a) for a, b in zip(of["a"], of["b"], strict=True)) / 3
    assert one.difference == pytest.approx(mean)


def test_the_gain_is_the_share_of_fine_tuning_s_logarithm() -> None:
    of = {"none": (2.0,), "public": (32.0,), "a": (8.0,)}
    assert values("a gain", {"main": results(of)}).values == (pytest.approx(0.5),)
    in_perplexity = values("a gain_in_perplexity", {"main": results(of)})
    assert in_perplexity.values == (pytest.approx(0.8),) and not in_perplexity.log


def test_where_fine_tuning_gained_nothing_no_share_of_the_gain_is_given() -> None:
    of: Perplexities = {"none": (20.0, 20.5), "public": (16.0, 16.0), "a": (30.0, 31.0)}
    equal = {**of, "none": of["public"]}
    with pytest.raises(UsageError, match="gained nothing"):
        values("a gain", {"main": results(equal)})
    for measure in ("gain", "gain_in_perplexity"):
        with pytest.raises(UsageError, match="gained nothing with seed 0"):
            values(f"a {measure}", {"main": results(of)})


def test_a_gain_is_of_one_public_model() -> None:
    of: Perplexities = {"none": (2.0,), "public:x=1": (32.0,), "public:x=2": (30.0,), "a": (8.0,)}
    for rows, count in ((of, 2), ({"none": (2.0,), "a": (8.0,)}, 0)):
        with pytest.raises(UsageError, match=f"needs 'public' once with seed 0, not {count}"):
            values("a gain", {"main": results(rows)})


@pytest.mark.parametrize(
    ("a", "times", "verdict"),
    [
        ((16.0, 8, 8), 2, None),
        ((20.0, 21, 20), 2, None),
        ((20.0, 21, 20), 0.5, "confirmed"),
        ((20.0, 21, 20), 1, "confirmed"),
    ],
)
def test_multiples_of_no_gain_say_nothing(a: Any, times: float, verdict: str | None) -> None:
    """`a` has lost or has nothing, so half of its gain says nothing; that `b` keeps half does."""
    of = {"none": (2.0,) * 3, "public": (16.0,) * 3, "a": a, "b": (8.0, 8.5, 8.1)}
    one = judged({"less": "a gain", "than": "b gain", "times": times}, of)
    assert one.verdict == (verdict or "inconclusive")
    assert (one.difference is None) == (verdict is None) == ("say nothing" in one.test)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ({**LESS, "times": 0}, "`times` must be a number above 0, not 0"),
        ({**LESS, "times": -1}, "`times`"),
        ({"same": "a perplexity", "as": "b perplexity"}, "`within` must be .* not None"),
        ({"at_most": "a perplexity", "value": 0}, "`value`"),
        ({"says": "nothing"}, "a statement has one of"),
        ({**LESS, "at_most": "a perplexity", "value": 1}, "a statement has one of"),
    ],
)
def test_a_statement_that_says_nothing_is_refused(statement: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        judged(statement, {"a": (10, 11), "b": (20, 21)})


def test_epsilons_of_phrases_are_of_the_relation_that_is_named() -> None:
    rows = [release("a", 0, 9.0)]
    tables = [{"relation": "add_or_remove", "mean": 1.4}, {"relation": "replace", "mean": 3.0}]
    guarantee = dataclasses.replace(rows[0].guarantee, phrases=tables)
    rows = [rows[0].model_copy(update={"guarantee": guarantee})]
    of = runs_of(rows)
    assert values("a phrases.replace.mean", of).values == (3.0,)
    assert values("a phrases.add_or_remove.mean", of).values == (1.4,)
    for name in ("removed.mean", "replace.most", "replace", "replace.mean.of"):
        with pytest.raises(UsageError, match="no phrases under"):
            values(f"a phrases.{name}", of)
    twice = dataclasses.replace(guarantee, phrases=[*tables, tables[1]])
    of = {"main": of["main"].model_copy(
        update={"releases": [rows[0].model_copy(update={"guarantee": twice})]})}  # fmt: skip
    with pytest.raises(UsageError, match="no phrases under 'replace'"):
        values("a phrases.replace.mean", of)


def test_seeds_are_paired_by_number_in_whatever_order_they_stand() -> None:
    rows = [release("a", seed, 10 + seed) for seed in (2, 0, 1)]
    rows += [release("b", seed, 20 + seed) for seed in (1, 2, 0)]
    of = runs_of(rows)
    assert values("a perplexity", of).values == (10, 11, 12)
    assert judge([{"says": "s", **LESS}], of)[0].difference == pytest.approx(
        sum(math.log(20 + s) - math.log(10 + s) for s in range(3)) / 3
    )
    others = [release("b", seed, 20.0) for seed in (1, 2, 3)]
    of = runs_of([*rows[:3], *others])
    with pytest.raises(UsageError, match="cannot be compared"):
        judge([{"says": "s", **LESS}], of)


def test_what_was_not_measured_is_no_number() -> None:
    """A missing count of teachers is not zero, and of an infinite perplexity no gain is left."""
    rows = [release(name, seed, math.inf) for name in ("a", "none", "public") for seed in range(3)]
    of = runs_of(rows)
    for measure in ("gain", "gain_in_perplexity", "teachers_per_user"):
        with pytest.raises(UsageError, match="was not measured"):
            values(f"a {measure}", of)


@pytest.mark.parametrize("times", [0.5, 1, 2])
@pytest.mark.parametrize("measure", ["perplexity", "perplexity_full", "private_token_perplexity"])
def test_a_perplexity_that_no_float_holds_is_above_all_others(times: float, measure: str) -> None:
    """With six seeds: of such values there is no t-interval, since their spread is not known."""
    of = {"a": (10, 11, 12) * 2, "b": (math.inf, 1e308, math.inf) * 2}
    runs = {"main": measured_as(results(of), measure)}
    names = {"less": f"a {measure}", "than": f"b {measure}", "times": times, "says": "s"}
    (one,) = judge([names], runs)
    assert one.verdict == "confirmed" and one.high is None and one.difference is None
    assert one.low == pytest.approx(math.log(times) + math.log(1e308 / 11))
    assert "over 1e+308" in page.figures(one.document) and "∞]" in page.figures(one.document)
    (back,) = judge([{**names, "less": names["than"], "than": names["less"]}], runs)
    assert back.verdict == "contradicted" and back.low is None
    few = {"main": measured_as(results({name: seeds[:3] for name, seeds in of.items()}), measure)}
    assert judge([names], few)[0].verdict == "inconclusive"


def measured_as(of: Results, measure: str) -> Results:
    rows = [
        row.model_copy(update={"utility": {measure: row.utility["perplexity"]}})
        for row in of.releases
    ]
    return of.model_copy(update={"releases": rows})


@pytest.mark.parametrize("statement", [LESS, {"same": LESS["less"], "as": LESS["than"]}])
def test_two_infinite_perplexities_are_neither_the_same_nor_in_order(statement: Any) -> None:
    of = {"a": [math.inf] * 6, "b": [math.inf] * 6}
    one = judged({**statement, "within": 0.1}, of)
    assert (one.verdict, one.low, one.difference) == ("inconclusive", None, None)
    assert "; not known" in page.figures(one.document)


def test_a_perplexity_is_held_against_a_number_by_its_logarithm() -> None:
    one = judged({"at_most": "a perplexity", "value": 100.0}, {"a": (math.inf,) * 6})
    assert (one.verdict, one.low) == ("contradicted", None)
    one = judged({"at_least": "a perplexity", "value": 5.0}, {"a": (10.0, 20.0, 10.0)})
    assert one.difference == pytest.approx(math.log(4) / 3 + math.log(2) * 2 / 3)


def test_teachers_per_user_are_their_mean() -> None:
    rows = [release("a", 0, 9.0)]
    guarantee = dataclasses.replace(rows[0].guarantee, teachers_per_user={1: 3, 2: 1})
    rows = [rows[0].model_copy(update={"guarantee": guarantee})]
    of = runs_of(rows)
    assert values("a teachers_per_user", of).values == (1.25,)


def test_what_was_answered_is_a_share_of_the_queries() -> None:
    def answered(*sessions: tuple[int, int]) -> tuple[float | None, ...]:
        each = [SessionResult(purpose="utility", stopped_at=k,
                              **{**SESSION, "queries": n, "answered": k})
                for k, n in sessions]  # fmt: skip
        rows = [release("a", 0, 9.0, sessions=each)]
        return values("a answered", runs_of(rows)).values

    assert answered((2, 8)) == (0.25,)
    for sessions in ([(0, 0)], []):
        with pytest.raises(UsageError, match="not measured"):
            answered(*sessions)


def test_only_a_perplexity_is_read_where_it_is_infinite() -> None:
    bleu = Measure(value=math.inf, ci=None, n=1, method="m", unit="BLEU-4")
    of = runs_of([release("a", 0, 9.0, utility={"bleu4": bleu})])  # fmt: skip
    with pytest.raises(UsageError, match="not measured"):
        values("a bleu4", of)


def test_a_finding_is_of_the_attack_s_own_settings() -> None:
    labels = {"extraction:generations=10": 0.1, "extraction:generations=1000,suffix=0": 0.9,
              "extraction:generations=10,suffix=0": 0.5}  # fmt: skip
    found = [finding(attack=label, value=v) for label, v in labels.items()]
    of = runs_of([release("a", 0, 9.0, findings=found)])
    for label, value in (*labels.items(), ("extraction:generations=1000", 0.9)):
        assert values(f"a {label}/hit_rate", of).values == (value,)


def test_a_claim_is_confirmed_by_all_and_contradicted_by_one() -> None:
    def one(verdict: Verdict) -> Judged:
        return Judged("s", verdict, 0.0, None, None, "t", {})

    yes, no, unknown = map(one, (Verdict.CONFIRMED, Verdict.CONTRADICTED, Verdict.INCONCLUSIVE))
    assert overall([yes, yes]) == "confirmed"
    assert overall([yes, no, unknown]) == "contradicted"
    assert overall([yes, unknown]) == "inconclusive"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("c perplexity", "0 settings"),
        ("a:k=3 perplexity", "0 settings"),
        ("a perplexity", "2 settings"),
        ("a:k=1 bleu", "the run measured perplexity"),
        ("other/a:k=1 perplexity", "names no run"),
        ("a:k=1 extraction/hit_rate", "0 findings"),
        ("a:k perplexity", "write DEFENSE:NAME=VALUE"),
    ],
)
def test_a_measure_that_is_not_there_or_not_one_is_refused(name: str, words: str) -> None:
    of = {"main": results({"a:k=1": (10,), "a:k=2": (11,)})}
    with pytest.raises(UsageError, match=words):
        values(name, of)


# the claims themselves


def test_every_claim_is_a_plan_that_can_be_run_and_names_what_it_measures() -> None:
    assert len(claims.ids()) >= 25
    for name in claims.ids():
        one = claims.read(name)
        assert one.statements and all(s["says"].strip() for s in one.statements)
        scales = [scale for scale in claims.SCALES if not one.without(scale)]
        assert scales, f"{name} is out of reach everywhere"
        for plan in (plan for scale in scales for plan in one.plans(scale).values()):
            assert {"attack", "sweep"} <= set(plan)
            assert len(plan["sweep"]["seeds"]) >= 3
            for text in grid_of(plan["sweep"], plan).settings():
                placed = re.sub("(HERE|DATA)/", f"{claims.HERE}/seqpate/", text)  # of names.txt
                registry.build("defenses", placed, Defense, {})


def test_larger_scales_have_corpora_and_models_of_their_own() -> None:
    for name, scale in itertools.product(claims.ids(), claims.SCALES[1:]):
        one = claims.read(name)
        if scale in one.unreachable:
            with pytest.raises(UsageError, match=f"{name}: out of reach at {scale}"):
                one.plans(scale)
            continue
        if scale == "real" and not name.startswith("M"):
            with pytest.raises(UsageError, match=f"{name}: not planned at real"):
                one.plans(scale)
            continue
        for plan in one.plans(scale).values():
            assert plan["corpus"].startswith("DATA/")
            assert plan["model"].startswith("DATA/") or plan["model"] == "lstm"


def test_settings_are_laid_over_others_table_by_table() -> None:
    below = {"a": {"x": 1, "y": [2]}, "b": 1}
    assert merged(below, {"a": {"x": 3}}) == {"a": {"x": 3, "y": [2]}, "b": 1}
    assert merged(below, {"a": {"y": []}}) == {"a": {"x": 1}, "b": 1}
    assert below == {"a": {"x": 1, "y": [2]}, "b": 1}


def test_an_unknown_key_of_a_claim_is_refused(tmp_path: Any, monkeypatch: Any) -> None:
    source = claims.ids()["M1"].read_text("utf-8")
    (tmp_path / "submix").mkdir()
    (tmp_path / "submix" / "M1.toml").write_text("verdict = 1\n" + source)
    monkeypatch.setattr(claims, "HERE", tmp_path)
    with pytest.raises(UsageError, match="unknown key 'verdict'"):
        claims.read("M1")
    with pytest.raises(UsageError, match="claim M2: unknown; known: M1"):
        claims.read("M2")


def test_stored_verdicts_are_of_claims_as_they_stand() -> None:
    """A verdict is of the claim's settings and statements; its figures follow from the measured."""
    for path in page.STORED.glob("*/*.json"):
        stored = json.loads(path.read_text("utf-8"))
        one = claims.read(stored["claim"])
        assert path == page.stored_path(stored["claim"], stored["scale"])
        assert [s["says"] for s in stored["statements"]] == [s["says"] for s in one.statements]
        verdicts = [Judged(**s) for s in stored["statements"]]
        assert stored["verdict"] == overall(verdicts)
        assert stored["digest"] == one.digest(stored["scale"]), f"{path} is of another claim"
        for s in stored["statements"]:
            sides = {"confirmed": s["low"] is not None and s["low"] > 0,
                     "contradicted": s["high"] is not None and s["high"] < 0}  # fmt: skip
            assert sides.get(s["verdict"], True), (path, s["says"])


def test_the_page_shows_what_is_stored() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text()


def test_what_a_dry_run_expects_stands_beside_its_claim(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(page, "DRY_RUNS", tmp_path / "dry_runs.json")
    page.keep_dry_run("M1", "paper", {"main": "about 9 h on 2 processes"})
    page.keep_dry_run("M4", "paper", {"b64": "about 1 h", "b512": "about 2 h"})
    one, many = ("\n".join(page.section(claims.read(name), {}, "x/")) for name in ("M1", "M4"))
    assert "`paper` takes about 9 h on 2 processes." in one
    assert "`paper` takes b64: about 1 h; b512: about 2 h." in many


def test_the_first_verdict_of_a_scale_is_kept(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(page, "STORED", tmp_path / "results")
    page.keep("M1", "medium", '{"verdict": "inconclusive"}')
    assert page.stored("M1") == {"medium": {"verdict": "inconclusive"}}


def test_grids_that_a_paper_s_claims_share_are_of_defenses_that_a_claim_sweeps() -> None:
    both, one, none = (claims.read(n).plans("medium")["main"]["sweep"] for n in ("P1", "P6", "P12"))
    assert (both["dp_sgd"], both["seqpate"]) == ({"epochs": [5]}, {"teachers": [200]})
    assert one["seqpate"] == {"teachers": [200]} and "dp_sgd" not in one
    assert not {"dp_sgd", "seqpate"} & set(none)


def test_what_is_shown_and_not_judged_says_so() -> None:
    shown = {"gnmax perplexity": (20.0, 21.0)}
    judged = {"scale": "small", "seeds": [0, 1], "seconds": 60, "verdict": "confirmed"}
    of = {"small": {**judged, "statements": [], "shown": shown}}
    text = "\n".join(page.section(claims.read("M1"), of, ""))
    assert "Beside them, not judged: gnmax perplexity: 20, 21." in text
    assert "on two cores)" in text  # an older verdict names no model
    of["small"]["device"] = "cuda"
    assert "; 1 min on a GPU)" in "\n".join(page.section(claims.read("M1"), of, ""))


def test_a_verdict_names_the_public_model_that_it_is_of() -> None:
    """Models of one script differ from machine to machine, so figures of two do not compare."""
    stored = json.loads(page.stored_path("P4", "medium").read_text("utf-8"))
    of = {"medium": {**stored, "models": ["ab12cd34" * 8]}}
    assert "on two cores; public model ab12cd34)" in "\n".join(
        page.section(claims.read("P4"), of, "")
    )
