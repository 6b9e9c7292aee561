"""Membership scores joined with the coins: by hand, blind baseline, null."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.core.evidence import Scores
from audit.core.guarantee import no_guarantee
from audit.core.randomness import stream
from audit.findings import Case, measurements_of, scores
from audit.results.measurement import Measurement
from audit.results.schema import FindingResult
from audit.statistics.blind import blind_auc
from audit.statistics.interval import Interval
from tests.findings import by_hand
from tests.findings.closeness import figures, six
from tests.findings.joined import NAN, case, codes, half, records

INF = float("inf")


def letters(n: int, seed: int = 0) -> list[str]:
    """Texts that differ in nothing but chance."""
    drawn = np.random.default_rng(seed).choice(list("abcdefgh"), size=(n, 12))
    return ["".join(row) for row in drawn]


def texts(n: int, **more: Any) -> Case:
    """The first half is trained on."""
    return case(records(letters(n)), half(n), **more)


def loss(firsts: Sequence[float], seconds: Sequence[float] | None = None, **more: Any) -> Scores:
    """Of each owner; a record, or a code where the second value has a score of its own."""
    both = zip(firsts, firsts if seconds is None else seconds, strict=True)
    values = np.array([*both], dtype=float).ravel()
    fields = {"score": "loss", "target": "record" if seconds is None else "span", **more}
    return Scores(values=values, **fields)


def named(values: Any) -> Scores:
    """The score whose low end is tested."""
    return loss(values, score="ez", named=True)


def short(metric: str, evidence: Scores) -> str:
    """ "auc" of "record_loss_auc"."""
    return metric.removeprefix(f"{evidence.target}_").removeprefix(f"{evidence.score}_")


def by_metric(evidence: Scores, of: Case) -> dict[str, Measurement]:
    return {short(f.metric, evidence): f for f in measurements_of([evidence], of)}


def judged(evidence: Scores, of: Case) -> dict[str, FindingResult]:
    """Answers for a release that promises nothing, where the undefended model leaks everywhere."""
    found = measurements_of([evidence], of)
    sensitive = {(f.attack, f.metric): True for f in found}
    results = by_hand.judged(found, no_guarantee("it is a test"), sensitive, tests=of.tests)
    return {short(r.metric, evidence): r for r in results}


# --- by hand


@pytest.mark.parametrize(
    ("values", "area"),
    [([3, 1, 2, 0], 3 / 4), ([3, 1, 1, 0], 3.5 / 4), ([INF, -INF, 0, -INF], 2.5 / 4)],
)
def test_area_counts_pairs_in_order(values: Sequence[float], area: float) -> None:
    """3 beats 2 and 0, 1 beats 0; then with a tie, which is half a pair."""
    one = by_metric(loss(values, windowed=3), texts(4))["auc"]
    assert (one.metric, one.unit) == ("record_loss_auc", "AUC")
    assert (one.value, one.n, one.chance, one.sides) == (area, 4, 0.5, 2)
    assert figures(one.observation) == [round(area, 3), 2, 2, 3]


def test_other_value_of_a_code_is_on_neither_side() -> None:
    firsts, seconds = [3, 1, 2, 0], [-9, 9, 9, 9]
    for slot, (one, other) in ((0, (firsts, seconds)), (1, (seconds, firsts))):
        assert by_metric(loss(one, other), case(codes(4), half(4), slot))["auc"].value == 3 / 4


@pytest.mark.parametrize("sign", [1, -1])
def test_members_all_above_or_below_are_tested_alike(sign: int) -> None:
    """One of 252 orders, twice: two-sided."""
    one = by_metric(loss([sign * (10.0 - i) for i in range(10)]), texts(10))["auc"]
    assert one.p_value == pytest.approx(2 / 252, abs=8 * (1 / 252 / 1e4) ** 0.5)
    assert one.value == (1.0 if sign > 0 else 0.0)


def test_curve_belongs_to_the_area_whose_test_others_share() -> None:
    found = by_metric(loss([-float(i) for i in range(200)]), texts(200))
    names = ["auc", "top", "tpr_at_1_percent", "tpr_at_0.1_percent", "accuracy", "refined_accuracy"]
    assert list(found) == names
    area = found["auc"]
    assert area.roc is not None and area.roc[-1] == (1.0, 1.0) and area.roc[0] == (0.0, 1.0)
    for name in names[2:]:
        one = found[name]
        assert (one.test, one.p_value, one.sides) == (area.test, area.p_value, 1)
        assert (one.roc, one.epsilon_lower, one.blind) == (None, None, None)
    for name in names[4:]:
        assert (found[name].value, found[name].chance) == (1.0, 0.5)
        assert figures(found[name].observation) == [100]
    wrong = by_metric(loss([float(i) for i in range(20)]), texts(20))["accuracy"]
    assert wrong.value == 0.0 and figures(wrong.observation) == [0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_readings_of_a_rejected_test_are_all_leaks(sign: float) -> None:
    """An AUC of 0.1 beside an accuracy below one half, and nobody found at 1 %."""
    values = np.random.default_rng(5).normal(size=300) + sign * 1.8 * np.array(half(300))
    found = judged(loss(values), texts(300))
    area, accuracy, low = (found[m] for m in ("auc", "accuracy", "tpr_at_1_percent"))
    assert area.value == pytest.approx(0.9 if sign > 0 else 0.1, abs=0.03)
    assert accuracy.value is not None and (accuracy.value > 0.5) == (sign > 0)
    assert low.value is not None and (low.value > 0.02) == (sign > 0)
    for one in (area, accuracy, found["refined_accuracy"], low):
        assert (one.test, one.p_value, one.leaked) == (area.test, area.p_value, "leak"), one.metric


def test_only_loss_has_protocols_and_only_codes_a_choice() -> None:
    of = case(codes(10), half(10))
    assert list(by_metric(loss(range(10), range(10), score="zlib"), of)) == ["auc", "top"]
    spans = list(by_metric(loss(range(10), range(10)), of))
    assert spans[-1] == "choice" and "accuracy" in spans and "tpr_at_1_percent" in spans
    assert "choice" not in by_metric(loss(range(10)), texts(10))


# --- the low end of the curve


@pytest.mark.parametrize(("controls", "refused"), [(99, True), (100, False), (101, False)])
def test_rate_at_one_percent_needs_a_hundred_controls(controls: int, refused: bool) -> None:
    n = 50 + controls
    of = case(records(letters(n)), [i < 50 for i in range(n)])
    result = judged(loss(range(n)), of)
    one, rarer = result["tpr_at_1_percent"], result["tpr_at_0.1_percent"]
    assert (one.leaked == "not measured") == (one.value is None) == refused
    assert ("at least 100 controls" in one.sentence) == refused
    assert rarer.leaked == "not measured" and "at least 1000 controls" in rarer.sentence


def beside_200(members: Sequence[float], **fields: Any) -> dict[str, Measurement]:
    """Five members, and 200 controls that score 0 … 199."""
    of = case(records(letters(205)), [i < 5 for i in range(205)])
    return by_metric(loss([*members, *range(200)], **fields), of)


def test_rate_at_one_percent_is_counted_by_hand() -> None:
    """Two controls may be above the threshold, which is 197."""
    one = beside_200([197, 197.5, 198, 500, -3])["tpr_at_1_percent"]
    assert (one.value, one.n, one.chance) == (0.6, 5, six(3 / 201))
    assert figures(one.observation) == [60, 1]
    assert one.power.smallest_rate == six(1 - 0.025 ** (1 / 5))
    assert one.ci == six((0.0, 0.9875 ** (1 / 5)))  # four are above the 7th


@pytest.fixture
def quick() -> Iterator[None]:
    """What is not looked at is left out."""
    nothing = Interval(None, None, None, 0, 0.95, "not looked at here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "_blind_auc", lambda *texts: nothing)
        for name in ("auc", "top_half_accuracy", "refined_accuracy"):
            patch.setattr(scores.roc, name, lambda *sides: nothing)
        yield


@pytest.mark.parametrize(
    ("controls", "metrics"),
    [
        (99, ["auc", "top", "above_all"]),
        (100, ["auc", "top", "tpr_at_1_percent", "above_all"]),
        (999, ["auc", "top", "tpr_at_1_percent", "above_all"]),
        (1000, ["auc", "top", "tpr_at_1_percent", "tpr_at_0.1_percent"]),
    ],
)
def test_named_score_has_two_low_tests_at_most(
    quick: None, controls: int, metrics: list[str]
) -> None:
    """However the coins fell, as they were declared beforehand; no other score has any."""
    n = 20 + controls
    of = case(records(letters(n)), [i < 20 for i in range(n)])
    found = by_metric(named(range(n)), of)
    assert list(found) == metrics
    assert len({one.test for one in found.values()}) == len(metrics) <= 4
    other = by_metric(loss(range(n), score="wbc"), of)
    tests = {"extraction record_wbc", "extraction record_wbc_top"}
    assert {one.test for one in other.values()} == tests and "above_all" not in other


def test_low_end_of_the_named_score_by_hand() -> None:
    """The third control from above is 197, and four of five members are above it, one of them above
    all. Of any six first ones at least four are members; of one first one."""
    found = beside_200([197.2, 197.5, 198.5, 500, -3], score="ez", named=True)
    one, leading = found["tpr_at_1_percent"], found["above_all"]
    ways = sum(math.comb(5, k) * math.comb(200, 6 - k) for k in (4, 5))
    assert (one.value, one.k) == (4 / 5, None)
    assert one.p_value == six(ways / math.comb(205, 6))
    seven = math.comb(200, 2) / math.comb(205, 7)  # all five of the first seven
    assert one.least_p == six(seven)
    assert (leading.k, leading.n, leading.chance) == (1, 5, six(1 / 201))
    assert leading.ci == pytest.approx((1 - 0.975 ** (1 / 5), 0.7164), abs=1e-4)
    assert figures(leading.observation) == [1, 5, 200]
    assert leading.p_value == six(5 / 205)  # that the first of all is a member
    assert leading.least_p == six(1 / math.comb(205, 5))
    assert leading.power.smallest_rate == six(1 - 0.05 ** (1 / 5))
    assert {one.sides, leading.sides} == {1} and one.test != leading.test
    assert leading.epsilon_lower is None and leading.power.largest_epsilon is None


def test_tie_at_the_low_end_is_broken_by_lot() -> None:
    """Figures count members above; the test lets a lot decide who stands before whom."""
    p_values = set()
    for seed in range(40):
        leading = by_metric(named([7, 7, 1, 7, 0, 0]), texts(6, seed=seed))["above_all"]
        assert leading.k == 0
        p_values.add(round(leading.p_value or 0.0, 9))
    assert p_values == {1.0, 0.5, 0.2}  # none, one or both of the members first: 1, 3/6, 3/15


@pytest.mark.parametrize("coins", [True, False])
def test_low_end_needs_members_and_controls(coins: bool) -> None:
    one = judged(named(range(6)), case(records(letters(6)), [coins] * 6))["above_all"]
    assert (one.value, one.p_value, one.leaked) == (None, None, "not measured")
    assert (one.power.largest_epsilon, one.power.n) == (None, 6 * coins)


def test_leaking_minority_is_found_where_the_area_is_not() -> None:
    """25 of 512 members stand above everybody, all others are alike: p = 2·10⁻⁸ and AUC 0.52."""
    values = np.random.default_rng(2).normal(size=1024)
    values[:25] += 100.0
    of = texts(1024, tests=18)
    unnamed = judged(loss(values, score="ez"), of)
    assert {f.leaked for f in unnamed.values()} == {"no leak found"}  # 5 % are too few for the top
    found = judged(named(values), of)
    area, leading = found["auc"], found["above_all"]
    assert area.value == pytest.approx(0.52, abs=0.03)
    assert (area.leaked, leading.leaked, leading.k) == ("no leak found", "leak", 25)
    assert leading.p_value is not None and leading.p_value < 1e-7
    assert found["tpr_at_1_percent"].leaked == "leak"


# --- few, none, tied, unread, shared


def test_scores_all_alike_show_nothing() -> None:
    found = by_metric(loss([-1.5] * 202, [-1.5] * 202), case(codes(202), half(202)))
    assert found["auc"].value == 0.5 and found["auc"].p_value == 1.0
    assert found["tpr_at_1_percent"].value == 0.0
    assert found["accuracy"].value == 0.5
    assert found["choice"].k is not None
    assert abs(found["choice"].k - 50) < 4 * math.sqrt(101 / 4)  # by lot


@pytest.mark.parametrize("present", [True, False])
def test_one_side_alone_has_no_area(present: bool) -> None:
    found = by_metric(loss(range(10), range(10)), case(codes(10), [present] * 10))
    for name in ("auc", "tpr_at_1_percent", "accuracy", "refined_accuracy"):
        one = found[name]
        assert (one.value, one.p_value, one.blind, one.roc) == (None,) * 4
    assert found["auc"].observation == ""
    assert (found["choice"].n, found["auc"].n) == (10 * present, 10)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_secrets_are_not_tested(n: int) -> None:
    found = by_metric(loss([1.0] * n, [0.0] * n), case(codes(n), [True] * n))
    assert all(one.p_value is None or one.least_p >= 0.05 for one in found.values())
    assert (found["choice"].epsilon_lower is None) == (n == 0)


def test_unanswered_values_are_left_out() -> None:
    """u1 and u4 were not reached; of u2's and u5's codes one was not."""
    firsts, seconds = [5, NAN, 3, 2, NAN, 1], [0, NAN, NAN, 0, NAN, NAN]
    found = by_metric(loss(firsts, seconds), case(codes(6), half(6)))
    assert (found["auc"].value, found["auc"].n) == (1.0, 4)
    assert found["auc"].epsilon_lower is not None
    assert found["auc"].epsilon_lower.m == 2  # u0 and u3: both values of both were read
    assert (found["choice"].k, found["choice"].n) == (1, 1)


def test_too_few_to_convince_are_not_tested() -> None:
    """Four against four: 2/70 = 0.029, two-sided. Four of four choices: 2·2^−4 = 0.125."""
    found = by_metric(loss([-float(i) for i in range(8)], [-99.0] * 8), case(codes(8), half(8)))
    assert (found["auc"].least_p, found["choice"].least_p) == (six(2 / 70), six(2 / 16))


# --- the second coin


def test_choice_is_counted_over_members_by_hand() -> None:
    """u0 and u2 right, u1 wrong; u3 is not trained on."""
    found = by_metric(loss([3, 1, 0, 9], [2, 2, 5, 0]), case(codes(4), [1, 1, 1, 0], [0, 0, 1, 0]))
    one = found["choice"]
    assert (one.k, one.n, one.value, one.chance) == (2, 3, six(2 / 3), 0.5)
    assert figures(one.observation) == [2, 3]
    assert one.sides == 2 and one.blind is None and one.test != found["auc"].test
    assert one.p_value == 1.0  # two of three or more, one or fewer: whatever happens


@pytest.mark.parametrize("right", [True, False])
def test_choices_all_right_or_wrong_are_a_leak(right: bool) -> None:
    """Ten of ten or none of ten: 2·2^−10, either way. Below, as a block list has it, shows no ε."""
    slots = np.random.default_rng(1).integers(2, size=10)
    firsts = 1.0 - slots if right else slots.astype(float)
    one = by_metric(loss(firsts, 1.0 - firsts), case(codes(10), [True] * 10, slots))["choice"]
    assert one.k == 10 * right
    assert one.p_value == one.least_p == six(2 * 0.5**10)
    assert one.epsilon_lower is not None and (one.epsilon_lower.value > 0) == right
    assert by_hand.answered(one, no_guarantee("it is a test")).leaked == "leak"


def test_choices_all_right_give_the_closed_form_under_replace() -> None:
    """20 trained-on users of 30, all coins guessed: q^20 = 0.05, and p = 2·2^−20."""
    slots = np.random.default_rng(0).integers(2, size=30)
    given = loss(-slots.astype(float), slots - 1.0)
    of = case(codes(30), [i < 20 for i in range(30)], slots)
    for tests in (1, 3):
        one = by_metric(given, replace(of, claim_tests=tests))["choice"]
        q = (0.05 / tests) ** (1 / 20)  # a claim must be refuted at the level it is tested at
        assert one.power.largest_epsilon == six(math.log(q / (1 - q)))
        bound, q = one.epsilon_lower, 0.05 ** (1 / 20)
        assert bound is not None and bound.value == six(math.log(q / (1 - q)))
        assert (bound.relation, bound.unit) == ("replace", "user")
        assert (bound.m, bound.guesses, one.p_value) == (20, [(20, 20)], six(2.0**-19))


# --- candidates that differ in themselves


def confounded(shift: float) -> tuple[Scores, Case]:
    """Members' texts open with a space, the others' do not; members score `shift` higher."""
    generator, present = np.random.default_rng(0), half(200)
    spaced = [f" {t}" if p else t for t, p in zip(letters(200), present, strict=True)]
    values = generator.normal(size=200) + shift * np.array(present)
    return loss(values.tolist()), case(records(spaced), present, tests=10)


def test_leading_space_is_seen_without_the_model() -> None:
    one = by_metric(*confounded(0.0))["auc"]
    assert one.blind is not None and one.blind.ci is not None
    assert one.blind.value > 0.95 and one.blind.ci[0] > 0.5 and one.blind.n == 200


@pytest.mark.parametrize("shift", [0.8, 2.3])
def test_confounded_scores_find_leaks_by_fair_coins(shift: float) -> None:
    """The texts differ by accident; in each reading of the score."""
    for name, one in judged(*confounded(shift)).items():
        assert one.leaked in ("leak", "not measured"), name
        assert name != "auc" or one.leaked == "leak"


def test_texts_that_differ_by_chance_confound_nothing() -> None:
    values = np.random.default_rng(1).normal(size=200) + 2.3 * np.array(half(200))
    one = judged(loss(values.tolist()), texts(200, tests=10))["auc"]
    assert one.blind is not None and one.blind.ci is not None
    assert one.blind.ci[0] <= 0.5 <= one.blind.ci[1]
    assert one.leaked == "leak" and "without the model" not in one.sentence


@pytest.mark.parametrize("seed", [28, 118])
def test_difference_of_one_run_in_forty_confounds_nothing(seed: int) -> None:
    """These texts differ with p = 0.02 and 0.025: the blind interval of 99 % says so, 95 % not."""
    drawn = letters(24, seed)
    draws = stream(0, "findings", "blind")
    at_95, p = blind_auc(drawn[:12], drawn[12:], draws, confidence=0.95)
    assert 0.01 < p <= 0.05 and at_95.ci is not None and not at_95.ci[0] <= 0.5 <= at_95.ci[1]
    one = by_metric(loss([0.0, 1.0] * 12), case(records(drawn), half(24)))["auc"]
    assert one.blind is not None and one.blind.ci is not None
    assert one.blind.value == at_95.value
    assert one.blind.ci[0] <= 0.5 <= one.blind.ci[1]


def test_blind_classifier_reads_compared_candidates_alone() -> None:
    """Unread ones and those of two owners are no candidates; one blind AUC serves all scores."""
    n = 60
    drawn, present = letters(n), half(n)
    values = np.random.default_rng(2).normal(size=n)
    values[:10] = NAN
    drawn[59] = drawn[29]
    first = by_metric(loss(values), case(records(drawn), present))["auc"].blind
    assert first is not None and first.n == n - 10 - 2
    marked = [f"!!{t}" if np.isnan(v) else t for t, v in zip(drawn, values, strict=True)]
    again = by_metric(loss(values * 3), case(records(marked), present))["auc"].blind
    assert again == first
