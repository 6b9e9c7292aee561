"""Membership scores joined with the coins: by hand, blind baseline, null, releases of known ε."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audit.core.evidence import Scores
from audit.core.guarantee import no_guarantee
from audit.core.predictor import Access
from audit.core.randomness import stream
from audit.core.secret import Coins, Secret, Space, digits
from audit.findings import Case, measurements_of, scores
from audit.results.measurement import Measurement
from audit.results.schema import FindingResult
from audit.statistics import rank_test
from audit.statistics.blind import blind_auc
from audit.statistics.interval import Interval
from tests.findings import by_hand
from tests.findings.closeness import median_bound, six
from tests.simulations import more, repeats

NAN, INF = float("nan"), float("inf")


def records(texts: Sequence[str]) -> list[Secret]:
    """A record is one value in both slots."""
    return [
        Secret("record", "", text, "", None, 1, f"u{i}", slot)
        for i, text in enumerate(texts)
        for slot in (0, 1)
    ]


def codes(n: int) -> list[Secret]:
    """Two codes of each owner that nobody else has."""
    return [
        Secret("code", "#", f"{2 * i + slot:05}", ".", digits(5), 4, f"u{i}", slot)
        for i in range(n)
        for slot in (0, 1)
    ]


def case(secrets: Sequence[Secret], present: Sequence[bool], slot: Any = 0, **more: Any) -> Case:
    """slot: of each owner, or of all."""
    names = [f"u{i}" for i in range(len(present))]
    slots = np.broadcast_to(slot, len(names)).tolist()
    present = [bool(p) for p in present]
    coins = Coins(dict(zip(names, present, strict=True)), dict(zip(names, slots, strict=True)))
    options: dict[str, Any] = {"delta": 0.0, "seed": 0, "access": Access.DISTRIBUTION, **more}
    return Case("membership", tuple(secrets), coins, **options)


def loss(firsts: Sequence[float], seconds: Sequence[float] | None = None, **more: Any) -> Scores:
    """Of each owner; a record, or a code where the second value has a score of its own."""
    both = zip(firsts, firsts if seconds is None else seconds, strict=True)
    values = np.array([*both], dtype=float).ravel()
    fields = {"score": "loss", "target": "record" if seconds is None else "span", **more}
    return Scores(values=values, **fields)


def short(metric: str, evidence: Scores) -> str:
    """ "auc" of "record_loss_auc"."""
    return metric.removeprefix(f"{evidence.target}_").removeprefix(f"{evidence.score}_")


def by_metric(evidence: Scores, of: Case) -> dict[str, Measurement]:
    return {short(f.metric, evidence): f for f in measurements_of([evidence], of)}


def half(n: int) -> list[bool]:
    return [i < n // 2 for i in range(n)]


def letters(n: int, seed: int = 0) -> list[str]:
    """Texts that differ in nothing but chance."""
    drawn = np.random.default_rng(seed).choice(list("abcdefgh"), size=(n, 12))
    return ["".join(row) for row in drawn]


# --- by hand


def test_the_area_counts_pairs_in_order() -> None:
    """3 beats 2 and 0, 1 beats 0; then with a tie, which is half a pair."""
    of = case(records(letters(4)), half(4))
    one = by_metric(loss([3, 1, 2, 0]), of)["auc"]
    assert (one.metric, one.unit, one.access) == ("record_loss_auc", "AUC", "score")
    assert (one.interval.value, one.interval.n, one.chance, one.sides) == (3 / 4, 4, 0.5, 2)
    assert one.observation == "AUC 0.750 of loss over 2 members and 2 others."
    assert by_metric(loss([3, 1, 1, 0]), of)["auc"].interval.value == 3.5 / 4
    assert by_metric(loss([INF, -INF, 0, -INF]), of)["auc"].interval.value == 2.5 / 4


def test_the_other_value_of_a_code_is_on_neither_side() -> None:
    firsts, seconds = [3, 1, 2, 0], [-9, 9, 9, 9]
    for slot, (one, other) in ((0, (firsts, seconds)), (1, (seconds, firsts))):
        found = by_metric(loss(one, other), case(codes(4), half(4), slot))
        assert found["auc"].interval.value == 3 / 4


@pytest.mark.parametrize("sign", [1, -1])
def test_members_that_all_score_above_or_all_below_are_a_leak(sign: int) -> None:
    """One of 252 orders, twice: two-sided. Below is a leak as well, but shows no ε."""
    values = [sign * (10.0 - i) for i in range(10)]
    one = by_metric(loss(values), case(records(letters(10)), half(10)))["auc"]
    assert one.p_value == pytest.approx(2 / 252, abs=8 * (1 / 252 / 1e4) ** 0.5)
    assert one.interval.value == (1.0 if sign > 0 else 0.0)
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.guesses[-1] == (6, 6 if sign > 0 else 0)


def test_all_guesses_right_gives_the_closed_form_of_epsilon() -> None:
    """60 owners, 40 guesses: q^40 = 0.05."""
    one = by_metric(loss([-float(i) for i in range(60)]), case(records(letters(60)), half(60)))
    bound, q = one["auc"].epsilon_lower, 0.05 ** (1 / 40)
    assert bound is not None and (bound.m, bound.guesses[-1]) == (60, (40, 40))
    assert bound.value == six(math.log(q / (1 - q)))
    assert (bound.unit, bound.relation) == ("user", "add_or_remove")
    assert one["auc"].power.largest_epsilon == six(bound.value)


def test_the_better_of_both_values_stands_for_its_owner() -> None:
    """For ε, the attacker does not know which of the two was planted."""
    n = 60
    low, high = np.zeros(n), np.array([float(p) for p in half(n)])
    one = by_metric(loss(low, high), case(codes(n), half(n)))
    assert one["auc"].interval.value == 0.5
    bound = one["auc"].epsilon_lower
    assert bound is not None and bound.guesses[-1] == (40, 40)


def test_the_curve_belongs_to_the_area_and_other_readings_share_its_test() -> None:
    n = 200
    found = by_metric(loss([-float(i) for i in range(n)]), case(records(letters(n)), half(n)))
    names = ["auc", "top", "tpr_at_1_percent", "tpr_at_0.1_percent", "accuracy", "refined_accuracy"]
    assert list(found) == names
    area = found["auc"]
    assert area.roc is not None and area.roc[-1] == (1.0, 1.0) and area.roc[0] == (0.0, 1.0)
    for name in names[2:]:
        one = found[name]
        assert (one.test, one.p_value, one.sides) == (area.test, area.p_value, 1)
        assert (one.roc, one.epsilon_lower, one.blind) == (None, None, None)
    for name in ("accuracy", "refined_accuracy"):
        assert (found[name].interval.value, found[name].chance) == (1.0, 0.5)
        assert found[name].observation == "100 % of the calls are right."


def test_calls_that_are_all_wrong_are_told_as_well() -> None:
    found = by_metric(loss([float(i) for i in range(20)]), case(records(letters(20)), half(20)))
    assert found["accuracy"].interval.value == 0.0
    assert found["accuracy"].observation == "0 % of the calls are right."


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_readings_of_a_rejected_test_are_leaks_whatever_their_figure(sign: float) -> None:
    """An AUC of 0.1 beside an accuracy below one half, and nobody found at 1 %."""
    n = 300
    values = np.random.default_rng(5).normal(size=n) + sign * 1.8 * np.array(half(n))
    found = judged(loss(values), case(records(letters(n)), half(n)))
    area, accuracy, low = (found[m] for m in ("auc", "accuracy", "tpr_at_1_percent"))
    assert area.value == pytest.approx(0.9 if sign > 0 else 0.1, abs=0.03)
    assert accuracy.value is not None and (accuracy.value > 0.5) == (sign > 0)
    assert low.value is not None and (low.value > 0.02) == (sign > 0)
    for one in (area, accuracy, found["refined_accuracy"], low):
        assert (one.test, one.p_value, one.leaked) == (area.test, area.p_value, "leak"), one.metric
    assert ("this figure alone hides it" in accuracy.sentence) == (sign < 0)


def test_other_scores_have_no_protocols_and_records_no_second_coin() -> None:
    of = case(codes(10), half(10))
    assert list(by_metric(loss(range(10), range(10), score="zlib"), of)) == ["auc", "top"]
    spans = by_metric(loss(range(10), range(10)), of)
    assert list(spans)[-1] == "choice" and "accuracy" in spans
    assert "choice" not in by_metric(loss(range(10)), case(records(letters(10)), half(10)))


# --- the low end of the curve


def judged(evidence: Scores, of: Case, fair: bool = True) -> dict[str, FindingResult]:
    """Answers for a release that promises nothing, where the undefended model leaks everywhere.

    fair: whether fair coins chose the members.
    """
    found = [f.changed(fair_coins=fair) for f in measurements_of([evidence], of)]
    sensitive = {(f.attack, f.metric): True for f in found}
    results = by_hand.judged(found, no_guarantee("it is a test"), sensitive, tests=of.tests)
    return {short(r.metric, evidence): r for r in results}


@pytest.mark.parametrize(("controls", "refused"), [(99, True), (100, False), (101, False)])
def test_a_rate_at_one_percent_needs_a_hundred_controls(controls: int, refused: bool) -> None:
    n = 50 + controls
    present = [i < 50 for i in range(n)]
    result = judged(loss(range(n)), case(records(letters(n)), present))
    one = result["tpr_at_1_percent"]
    assert (one.leaked == "not measured") == (one.value is None) == refused
    assert ("at least 100 controls" in one.sentence) == refused
    assert "at least 1000 controls" in result["tpr_at_0.1_percent"].sentence
    assert result["tpr_at_0.1_percent"].leaked == "not measured"


def test_the_rate_at_one_percent_is_counted_by_hand() -> None:
    """200 controls score 0 … 199; two may be above the threshold, which is 197."""
    members = [197, 197.5, 198, 500, -3]
    of = case(records(letters(205)), [i < 5 for i in range(205)])
    one = by_metric(loss([*members, *range(200)]), of)["tpr_at_1_percent"]
    assert (one.value, one.n, one.chance) == (0.6, 5, six(3 / 201))
    assert one.observation == "60 % of the members found at a false positive rate of 1 %."
    assert one.power.smallest_rate == six(1 - 0.025 ** (1 / 5))
    assert one.interval.ci == six((0.0, 0.9875 ** (1 / 5)))  # four are above the 7th


def test_what_another_score_cannot_show_either_is_said_once() -> None:
    of = case(records(letters(20)), half(20))
    assert "tpr_at_1_percent" in by_metric(loss(range(20)), of)
    assert list(by_metric(loss(range(20), score="min_k"), of)) == ["auc", "top"]


@pytest.mark.parametrize(
    ("controls", "metrics"),
    [
        (99, ["auc", "top", "above_all"]),
        (100, ["auc", "top", "tpr_at_1_percent", "above_all"]),
        (999, ["auc", "top", "tpr_at_1_percent", "above_all"]),
        (1000, ["auc", "top", "tpr_at_1_percent", "tpr_at_0.1_percent"]),
    ],
)
def test_the_named_score_has_two_tests_of_the_low_end_at_most(
    quick: None, controls: int, metrics: list[str]
) -> None:
    """However the coins fell, as they were declared beforehand; no other score has any."""
    n = 20 + controls
    of = case(records(letters(n)), [i < 20 for i in range(n)])
    found = by_metric(loss(range(n), score="ez", named=True), of)
    assert list(found) == metrics
    assert len({one.test for one in found.values()}) == len(metrics) <= 4
    other = by_metric(loss(range(n), score="wbc"), of)
    assert {one.test for one in other.values()} == {
        "membership record_wbc",
        "membership record_wbc_top",
    }
    assert "above_all" not in other


def test_the_low_end_of_the_named_score_by_hand() -> None:
    """200 controls score 0 … 199; the third from above is 197, and four of five members are above
    it, one of them above all. Of any six first ones at least four are members; of one first one."""
    members = [197.2, 197.5, 198.5, 500, -3]
    of = case(records(letters(205)), [i < 5 for i in range(205)])
    found = by_metric(loss([*members, *range(200)], score="ez", named=True), of)
    one, leading = found["tpr_at_1_percent"], found["above_all"]
    ways = sum(math.comb(5, k) * math.comb(200, 6 - k) for k in (4, 5))
    assert (one.interval.value, one.k) == (4 / 5, None)
    assert one.p_value == six(ways / math.comb(205, 6))
    seven = math.comb(200, 2) / math.comb(205, 7)  # all five of the first seven
    assert one.least_p == six(seven)
    assert (leading.k, leading.interval.n, leading.chance) == (1, 5, six(1 / 201))
    assert leading.interval.ci == pytest.approx((1 - 0.975 ** (1 / 5), 0.7164), abs=1e-4)
    assert leading.observation == "1 of 5 members score above all 200 others."
    assert leading.p_value == six(5 / 205)  # that the first of all is a member
    assert leading.least_p == six(1 / math.comb(205, 5))
    assert leading.power.smallest_rate == six(1 - 0.05 ** (1 / 5))
    assert {one.sides, leading.sides} == {1} and one.test != leading.test
    assert leading.epsilon_lower is None and leading.power.largest_epsilon is None


def test_a_tie_at_the_low_end_is_broken_by_lot() -> None:
    """Figures count members above; the test lets a lot decide who stands before whom."""
    of = case(records(letters(6)), half(6))
    p_values = set()
    for seed in range(40):
        tied = replace(of, seed=seed)
        leading = by_metric(loss([7, 7, 1, 7, 0, 0], score="ez", named=True), tied)["above_all"]
        assert leading.k == 0
        p_values.add(round(leading.p_value or 0.0, 9))
    assert p_values == {1.0, 0.5, 0.2}  # none, one or both of the members first: 1, 3/6, 3/15


@pytest.mark.parametrize("coins", [True, False])
def test_the_low_end_needs_members_and_controls(coins: bool) -> None:
    found = judged(loss(range(6), score="ez", named=True), case(records(letters(6)), [coins] * 6))
    one = found["above_all"]
    assert (one.value, one.p_value, one.leaked) == (None, None, "not measured")
    assert (one.power.largest_epsilon, one.power.n) == (None, 6 * coins)


def test_a_minority_that_leaks_completely_is_found_where_the_area_sees_nothing() -> None:
    """25 of 512 members stand above everybody, all others are alike: p = 2·10⁻⁸ and AUC 0.52."""
    n = 1024
    generator = np.random.default_rng(2)
    scores_ = generator.normal(size=n)
    scores_[:25] += 100.0
    of = case(records(letters(n)), half(n), tests=18)
    unnamed = judged(loss(scores_, score="ez"), of)
    assert {f.leaked for f in unnamed.values()} == {"no leak found"}  # 5 % are too few for the top
    found = judged(loss(scores_, score="ez", named=True), of)
    assert found["auc"].value == pytest.approx(0.52, abs=0.03)
    assert found["auc"].p_value is not None and found["auc"].p_value > 0.05
    assert (found["auc"].leaked, found["above_all"].leaked) == ("no leak found", "leak")
    assert found["above_all"].k == 25
    assert found["above_all"].p_value is not None and found["above_all"].p_value < 1e-7
    assert found["tpr_at_1_percent"].leaked == "leak"


@repeats(80, 800)
@pytest.mark.parametrize(
    ("levels", "members"), [(4, 12), (10**6, 80), *more((10**6, 12), (30, 110))]
)
def test_the_low_end_of_scores_that_know_nothing_is_rarely_a_leak(
    quick: None, levels: int, members: int, runs: int
) -> None:
    generator = np.random.default_rng(levels + members)
    secrets, alarms = records(letters(120)), np.zeros(2)
    for run in range(runs):
        present = generator.permutation(120) < members
        values = np.floor(levels * generator.beta(0.5, 2.0, size=120))
        found = by_metric(loss(values, score="ez", named=True), case(secrets, present, seed=run))
        rows = [found[m] for m in ("above_all", "tpr_at_1_percent") if m in found]
        alarms[: len(rows)] += [row.p_value is not None and row.p_value <= 0.05 for row in rows]
    assert alarms.max() <= binom.ppf(0.999, runs, 0.05)
    assert members != 80 or alarms[0] > 0.02 * runs  # no idle test: (80/120)^8 = 0.039


# --- few, none, tied, unread, shared


def test_scores_that_are_all_alike_tell_nothing() -> None:
    n = 202
    found = by_metric(loss([-1.5] * n, [-1.5] * n), case(codes(n), half(n)))
    assert found["auc"].interval.value == 0.5 and found["auc"].p_value == 1.0
    assert found["auc"].epsilon_lower is not None and found["auc"].epsilon_lower.value == 0.0
    assert found["tpr_at_1_percent"].interval.value == 0.0
    assert found["accuracy"].interval.value == 0.5
    assert found["choice"].k is not None
    assert abs(found["choice"].k - 50) < 4 * math.sqrt(101 / 4)  # by lot


@pytest.mark.parametrize("present", [[True] * 10, [False] * 10])
def test_without_twins_or_without_planted_there_is_no_area(present: list[bool]) -> None:
    found = by_metric(loss(range(10), range(10)), case(codes(10), present))
    for name in ("auc", "tpr_at_1_percent", "accuracy", "refined_accuracy"):
        one = found[name]
        assert (one.interval.value, one.p_value, one.blind, one.roc) == (None,) * 4
    assert found["auc"].observation == ""
    assert (found["choice"].interval.n, found["auc"].interval.n) == (10 * present[0], 10)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_secrets_show_nothing(n: int) -> None:
    found = by_metric(loss([1.0] * n, [0.0] * n), case(codes(n), [True] * n))
    for one in found.values():
        assert one.p_value is None or one.least_p >= 0.05
    assert (found["auc"].epsilon_lower, found["auc"].power.largest_epsilon) == (None, None)
    assert (found["choice"].epsilon_lower is None) == (n == 0)


def test_a_space_of_one_value_compares_nobody() -> None:
    seven = Space((("7",),))
    secrets = [Secret("code", "#", "7", "", seven, 4, f"u{i // 2}", i % 2) for i in range(40)]
    found = by_metric(loss([0.5] * 20, [0.5] * 20), case(secrets, half(20)))
    assert (found["auc"].interval.value, found["auc"].p_value) == (None, None)
    assert found["auc"].epsilon_lower is not None and found["auc"].epsilon_lower.value == 0.0
    assert found["choice"].interval.n == 10


def test_a_text_of_two_owners_is_on_neither_side() -> None:
    """u1, trained on, and u2, not, wrote the same: what is said of it says nothing of either."""
    texts = letters(4)
    texts[2] = texts[1]
    one = by_metric(loss([3, -9, 9, 0]), case(records(texts), half(4)))["auc"]
    assert (one.interval.value, one.interval.n) == (1.0, 2)
    assert one.observation == "AUC 1.000 of loss over 1 members and 1 others."


def test_what_was_not_answered_is_left_out() -> None:
    """u1 and u4 were not reached; of u2's and u5's codes one was not."""
    firsts, seconds = [5, NAN, 3, 2, NAN, 1], [0, NAN, NAN, 0, NAN, NAN]
    found = by_metric(loss(firsts, seconds), case(codes(6), half(6)))
    assert (found["auc"].interval.value, found["auc"].interval.n) == (1.0, 4)
    assert found["auc"].epsilon_lower is not None
    assert found["auc"].epsilon_lower.m == 2  # u0 and u3: both values of both were read
    assert (found["choice"].k, found["choice"].interval.n) == (1, 1)
    nothing = by_metric(loss([NAN] * 6, [NAN] * 6), case(codes(6), half(6)))
    for one in nothing.values():
        assert (one.interval.value, one.p_value, one.epsilon_lower) == (None,) * 3


def test_so_few_that_no_order_could_convince_are_not_tested() -> None:
    """Four against four: 2/70 = 0.029, two-sided. Four of four choices: 2·2^−4 = 0.125."""
    values, zeros = [-float(i) for i in range(8)], [-99.0] * 8
    for tests, tested in ((1, True), (2, False)):
        found = by_metric(loss(values, zeros), case(codes(8), half(8), tests=tests))
        assert (found["auc"].least_p * tests < 0.05) == tested
        assert found["choice"].least_p == six(2 / 16)


def test_records_read_in_windows_are_counted() -> None:
    one = by_metric(loss([3, 1, 2, 0], windowed=3), case(records(letters(4)), half(4)))["auc"]
    assert one.observation.endswith("2 others; 3 read in windows.")


@pytest.mark.parametrize("access", list(Access))
def test_scores_beyond_the_release_are_stronger_than_it(access: Access) -> None:
    of = case(records(letters(4)), half(4), access=access)
    for needed in (Access.SCORE, Access.DISTRIBUTION):
        for one in by_metric(loss(range(4), access=needed), of).values():
            assert one.stronger_than_release == (access < needed)
            assert one.access == needed.word


# --- the second coin


def test_the_choice_is_counted_over_trained_on_users_by_hand() -> None:
    """u0 and u2 right, u1 wrong; u3 is not trained on."""
    found = by_metric(loss([3, 1, 0, 9], [2, 2, 5, 0]), case(codes(4), [1, 1, 1, 0], [0, 0, 1, 0]))
    one = found["choice"]
    assert (one.k, one.interval.n, one.interval.value, one.chance) == (2, 3, six(2 / 3), 0.5)
    assert one.observation == "For 2 of 3 users the planted value scores above the other one."
    assert one.sides == 2 and one.blind is None and one.test != found["auc"].test
    assert one.p_value == 1.0  # two of three or more, one or fewer: whatever happens


@pytest.mark.parametrize("right", [True, False])
def test_planted_values_that_all_score_above_or_all_below_the_others_are_a_leak(
    right: bool,
) -> None:
    """Ten of ten or none of ten: 2·2^−10, either way. Below, as a block list has it, shows no ε."""
    slots = np.random.default_rng(1).integers(2, size=10)
    firsts = slots.astype(float) if right is False else 1.0 - slots
    one = by_metric(loss(firsts, 1.0 - firsts), case(codes(10), [True] * 10, slots))["choice"]
    assert one.k == 10 * right
    assert one.p_value == one.least_p == six(2 * 0.5**10)
    assert one.epsilon_lower is not None and (one.epsilon_lower.value > 0) == right
    result = by_hand.answered(one, no_guarantee("it is a test"))
    assert result.leaked == "leak"
    assert ("this figure alone hides it" in result.sentence) == (not right)


def test_all_choices_right_gives_the_closed_form_of_epsilon_under_replace() -> None:
    """20 trained-on users of 30, all coins guessed: q^20 = 0.05, and p = 2·2^−20."""
    slots = np.random.default_rng(0).integers(2, size=30)
    firsts, seconds = -slots.astype(float), slots - 1.0
    of = case(codes(30), [i < 20 for i in range(30)], slots)
    one = by_metric(loss(firsts, seconds), of)["choice"]
    q = 0.05 ** (1 / 20)
    assert one.epsilon_lower is not None
    assert one.epsilon_lower.value == six(math.log(q / (1 - q)))
    assert one.epsilon_lower.relation == "replace" and one.epsilon_lower.unit == "user"
    assert (one.epsilon_lower.m, one.epsilon_lower.guesses) == (20, [(20, 20)])
    assert one.p_value == six(2.0**-19)
    assert one.power.largest_epsilon == six(one.epsilon_lower.value)
    of_three = by_metric(loss(firsts, seconds), replace(of, claim_tests=3))["choice"].power
    q = (0.05 / 3) ** (1 / 20)  # a claim must be refuted at the level that it is tested at
    assert of_three.largest_epsilon == six(math.log(q / (1 - q)))


# --- candidates that differ in themselves


def confounded(shift: float, n: int = 200, seed: int = 0) -> tuple[Scores, Case]:
    """Members' texts open with a space, the others' do not; members score `shift` higher."""
    generator, present = np.random.default_rng(seed), half(n)
    texts = [f" {t}" if p else t for t, p in zip(letters(n), present, strict=True)]
    values = generator.normal(size=n) + shift * np.array(present)
    return loss(values.tolist()), case(records(texts), present, tests=10)


def test_a_leading_space_is_seen_without_the_model() -> None:
    one = by_metric(*confounded(0.0))["auc"]
    assert one.blind is not None and one.blind.ci is not None
    assert one.blind.value > 0.95 and one.blind.ci[0] > 0.5 and one.blind.n == 200


def test_a_model_as_good_as_the_blind_classifier_finds_nothing_without_fair_coins() -> None:
    """N(2.3, 1) against N(0, 1): the AUC is Φ(2.3/√2) = 0.948, with an interval up to 0.98."""
    one = judged(*confounded(2.3), fair=False)["auc"]
    assert one.p_value is not None and one.p_value < 1e-3
    assert one.leaked == "inconclusive" and "without the model" in one.sentence


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_a_model_worse_than_the_blind_classifier_finds_nothing_without_fair_coins(
    shift: float,
) -> None:
    assert judged(*confounded(shift), fair=False)["auc"].leaked == "inconclusive"


def test_no_reading_of_confounded_scores_finds_anything_without_fair_coins() -> None:
    for name, one in judged(*confounded(2.3), fair=False).items():
        assert one.leaked in ("inconclusive", "not measured"), name


@pytest.mark.parametrize("shift", [0.8, 2.3])
def test_with_fair_coins_the_candidates_differ_by_accident_and_a_rejected_test_is_a_leak(
    shift: float,
) -> None:
    for name, one in judged(*confounded(shift)).items():
        assert one.leaked in ("leak", "not measured"), name
    area = judged(*confounded(shift))["auc"]
    assert "differ without the model, by accident of the coins" in area.sentence


def test_texts_that_differ_by_chance_confound_nothing() -> None:
    n = 200
    values = np.random.default_rng(1).normal(size=n) + 2.3 * np.array(half(n))
    one = judged(loss(values.tolist()), case(records(letters(n)), half(n), tests=10))["auc"]
    assert one.blind is not None and one.blind.ci is not None
    assert one.blind.ci[0] <= 0.5 <= one.blind.ci[1]
    assert (one.leaked, one.claim) == ("leak", "nothing claimed")
    assert "without the model" not in one.sentence


@pytest.mark.parametrize("seed", [28, 118])
def test_what_happens_to_one_run_in_forty_confounds_nothing(seed: int) -> None:
    """These texts differ with p = 0.02 and 0.025: the blind interval of 99 % says so, 95 % not."""
    n = 24
    drawn = letters(n, seed)
    draws = stream(0, "findings", "blind")
    at_95, p = blind_auc(drawn[: n // 2], drawn[n // 2 :], draws, confidence=0.95)
    assert 0.01 < p <= 0.05 and at_95.ci is not None and not at_95.ci[0] <= 0.5 <= at_95.ci[1]
    one = by_metric(loss([0.0, 1.0] * (n // 2)), case(records(drawn), half(n)))["auc"]
    assert one.blind is not None and one.blind.ci is not None
    assert one.blind.value == at_95.value
    assert one.blind.ci[0] <= 0.5 <= one.blind.ci[1]


def test_the_blind_classifier_reads_the_compared_candidates_and_no_other() -> None:
    """Unread ones and those of two owners are no candidates; one blind AUC serves all scores."""
    n = 60
    texts, present = letters(n), half(n)
    values = np.random.default_rng(2).normal(size=n)
    values[:10] = NAN
    texts[59] = texts[29]
    first = by_metric(loss(values), case(records(texts), present))["auc"].blind
    assert first is not None and first.n == n - 10 - 2
    marked = [f"!!{t}" if np.isnan(v) else t for t, v in zip(texts, values, strict=True)]
    again = by_metric(loss(values * 3), case(records(marked), present))["auc"].blind
    assert again == first


# --- releases that know nothing, and releases that know exactly so much


@pytest.fixture
def quick() -> Iterator[None]:
    """Fewer permutations, and what is not looked at left out."""
    nothing = Interval(None, None, None, 0, 0.95, "not looked at here")
    with pytest.MonkeyPatch.context() as patch:
        few = functools.partial(rank_test.p_value, resamples=199)
        patch.setattr(rank_test, "p_value", few)
        patch.setattr(scores, "_blind_auc", lambda *texts: nothing)
        patch.setattr(scores.roc, "auc", lambda *sides: nothing)
        patch.setattr(scores.roc, "top_half_accuracy", lambda *sides: nothing)
        patch.setattr(scores.roc, "refined_accuracy", lambda *sides: nothing)
        yield


@repeats(80, 800)
@pytest.mark.parametrize(
    ("levels", "share"), [(2, 0.5), (10**6, 0.2), *more((8, 0.2), (10**6, 0.5))]
)
def test_scores_that_know_nothing_are_rarely_taken_for_a_leak(
    quick: None, levels: int, share: float, runs: int
) -> None:
    """Owners differ, both values of one are alike, scores tie, some are not read. The planted and
    the twins are exchangeable however many there are; the one-run bound wants fair coins, but
    guesses as many "in" as "out"."""
    generator = np.random.default_rng(levels)
    secrets, leaks, chosen, shown, replaced, tested = codes(24), 0, 0, 0, 0, 0
    for run in range(runs):
        owner = np.repeat(generator.normal(size=24), 2)
        raw = owner + generator.normal(size=48)
        values = np.floor(np.clip(raw + 4, 0, 7.999) / 8 * levels)
        values[int(generator.integers(40, 49)) :] = NAN
        of = case(secrets, generator.random(24) < share, generator.integers(2, size=24), seed=run)
        found = by_metric(Scores("loss", "span", values), of)
        area, choice = found["auc"], found["choice"]
        tested += area.p_value is not None
        leaks += area.p_value is not None and area.p_value <= 0.05
        chosen += choice.p_value is not None and choice.p_value <= 0.05
        shown += area.epsilon_lower is not None and area.epsilon_lower.value > 0
        replaced += choice.epsilon_lower is not None and choice.epsilon_lower.value > 0
    assert max(leaks, chosen, shown, replaced) <= binom.ppf(0.999, runs, 0.05)
    assert tested > 0.8 * runs and (levels < 10**6 or leaks > 0.01 * runs)  # no idle test


def test_the_choice_of_a_release_that_knows_nothing_is_right_half_the_time(quick: None) -> None:
    """Also where first values always score higher, or all alike: the coin is fair, or the lot."""
    generator, right, n = np.random.default_rng(4), np.zeros(3), 0
    for run in range(40):
        of = case(codes(30), [True] * 30, generator.integers(2, size=30), seed=run)
        noise = generator.normal(size=30)
        for i, seconds in enumerate((generator.normal(size=30), noise - 1, noise)):
            one = by_metric(loss(noise, seconds), of)["choice"]
            assert one.k is not None
            right[i] += one.k
        n += 30
    assert np.abs(right - n / 2).max() < 4 * math.sqrt(n / 4)


@repeats(20, 500)
@pytest.mark.parametrize("epsilon", [1.0, *more(0.5, 2.0)])
@pytest.mark.parametrize("coin", ["presence", "choice"])
def test_randomised_response_on_either_coin_is_bounded_from_below_and_closely(
    quick: None, monkeypatch: pytest.MonkeyPatch, epsilon: float, coin: str, runs: int
) -> None:
    """The score is the coin, but for another of 1/(1 + e^ε): add-or-remove by the first coin,
    where up to 200 of 300 are guessed, and replace by the second, where all present ones are."""
    monkeypatch.setattr(scores, "compared", lambda *case: (None, 1.0))
    m, bounds = 300, []
    secrets, generator = codes(m), np.random.default_rng(int(10 * epsilon))
    for run in range(runs):
        present, slot = generator.random(m) < 0.5, generator.integers(2, size=m)
        lie = generator.random(m) < 1 / (1 + math.exp(epsilon))
        if coin == "presence":
            firsts = seconds = (present ^ lie).astype(float)
        else:
            firsts, seconds = np.where(slot ^ lie, 0.0, 1.0), np.where(slot ^ lie, 1.0, 0.0)
        of = case(secrets, present, slot, delta=1e-6, seed=run)
        found = by_metric(loss(firsts, seconds), of)
        bound = found["auc" if coin == "presence" else "choice"].epsilon_lower
        assert bound is not None
        assert bound.relation == ("add_or_remove" if coin == "presence" else "replace")
        bounds.append(bound.value)
    assert np.mean(np.array(bounds) > epsilon) <= binom.ppf(0.999, runs, 0.05) / runs
    q = 1 / (1 + math.exp(-epsilon))
    low = q - 1.645 * math.sqrt(q * (1 - q) / 150)  # of 150 guesses, by the normal approximation
    closest = median_bound(m, epsilon) if coin == "presence" else math.log(low / (1 - low))
    assert np.median(bounds) == pytest.approx(closest, abs=0.1)


@pytest.mark.parametrize("present", [0, 1, 29, 30])
def test_no_lopsidedness_of_coins_makes_an_epsilon_of_itself(quick: None, present: int) -> None:
    for seed in range(20):
        of = case(codes(30), [i < present for i in range(30)], seed=seed)
        one = by_metric(loss([0.0] * 30, [0.0] * 30), of)["auc"]
        assert one.epsilon_lower is not None and one.epsilon_lower.value == 0.0
        if present in (0, 30):
            assert one.epsilon_lower.guesses[-1] == (20, 10)
