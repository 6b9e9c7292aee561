"""ROC measures against their definitions, and their intervals over simulated attacks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm, rankdata

from audit.statistics import roc
from tests.simulations import repeats

RUNS = 2000


def least(runs):
    """The smallest share of intervals that cover, where 95 % do."""
    return 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)


side = st.lists(st.integers(0, 6), min_size=1, max_size=12)


# --- the area


@given(side, side)
def test_the_area_is_the_share_of_pairs_in_order_ties_half(members, controls):
    pairs = [(a > b) + (a == b) / 2 for a in members for b in controls]
    found = roc.auc(members, controls)
    assert found.value == pytest.approx(np.mean(pairs))
    assert 0 <= found.low <= found.value <= found.high <= 1
    turned = roc.auc(controls, members)
    assert turned.ci == pytest.approx((1 - found.high, 1 - found.low), abs=1e-8)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 3), (5, 500), (60, 60)])
def test_perfect_scores_have_the_exact_interval_of_no_error(n, m):
    found = roc.auc(np.ones(n), np.zeros(m))
    assert found.ci == pytest.approx((0.025 ** (1 / min(n, m)), 1.0), abs=1e-8)
    assert found.n == n + m


def tail_mean(k: int, area: float, tail: float = 0.025) -> float:
    """The mean of the upper tail of Bin(k, area)/k, outcome by outcome from the top."""
    left, total = tail, 0.0
    for j in range(k, -1, -1):
        taken = min(left, float(binom.pmf(j, k, area)))
        total, left = total + taken * j, left - taken
    return total / tail / k


@pytest.mark.parametrize(("k", "area"), [(3, 0.5), (7, 0.83), (40, 0.64), (40, 0.99)])
def test_bounds_are_where_a_binomial_tail_has_the_area_for_its_mean(k, area):
    controls = np.arange(1000) / 1000
    found = roc.auc(np.full(k, area - 0.0005), controls)
    assert found.value == pytest.approx(area)
    assert tail_mean(k, found.low) == pytest.approx(area, abs=1e-6)
    assert tail_mean(k, 1 - found.high) == pytest.approx(1 - area, abs=1e-6)


def normal(area, draw, n, m):
    return draw(n) + math.sqrt(2) * norm.ppf(area), draw(m)


def two_point(area, draw, n, m):
    """Members far above or far below all controls: the worst case."""
    return np.where(norm.cdf(draw(n)) < area, 99.0, -99.0), draw(m)


def binary(area, draw, n, m):
    """Two values only."""
    return (
        (norm.cdf(draw(n)) < min(1.0, 2 * area - 0.8)) * 1.0,
        (norm.cdf(draw(m)) < min(1.0, 2 * area - 0.8) - 2 * area + 1) * 1.0,
    )


def lognormal(area, draw, n, m):
    """Against a uniform; P[uniform < cZ] = E min(cZ, 1) for Z with a log deviation of 1.5."""

    def missing(log_c):
        inner = math.exp(log_c + 1.125) * norm.cdf(-log_c / 1.5 - 1.5)
        return inner + norm.cdf(log_c / 1.5) - area

    return np.exp(1.5 * draw(n) + brentq(missing, -40, 40)), norm.cdf(draw(m))


@pytest.mark.calibration
@pytest.mark.parametrize("area", [0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("family", [normal, two_point, binary, lognormal])
def test_the_interval_covers_the_true_area(family, area):
    generator = np.random.default_rng(5)
    for n, m in [(3, 3), (5, 500), (500, 5), (30, 30), (60, 60)]:
        members, controls = family(area, lambda size: generator.normal(size=(RUNS, size)), n, m)
        ranks = rankdata(np.hstack([members, controls]), axis=1)[:, :n].sum(axis=1)
        areas = (ranks - n * (n + 1) / 2) / (n * m)
        k = min(n, m)  # the bounds hold the truth for estimates between these two
        low, high = 1 - tail_mean(k, 1 - area), tail_mean(k, area)
        covered = np.mean((areas >= low - 1e-9) & (areas <= high + 1e-9))
        assert covered >= least(RUNS), (n, m)
        assert areas.mean() == pytest.approx(area, abs=0.02)
    widest = high - low  # of 60 and 60: twice 2.34 deviations of a worst case
    assert widest < 2 * 2.4 * math.sqrt(area * (1 - area) / 60) + 2 / 60


def test_few_and_none():
    assert roc.auc([], [1.0]).value is None
    assert roc.auc([1.0], []).ci is None
    assert roc.auc([1.0], [0.0]).ci == pytest.approx((0.025, 1.0))
    assert roc.auc([-math.inf, 1.0], [-math.inf]).value == 0.75


# --- the low end


@given(side, st.lists(st.integers(0, 6), min_size=10, max_size=30), st.floats(0.1, 1))
def test_the_threshold_is_the_most_permissive_allowed(members, controls, fpr):
    allowed = [
        np.mean(np.array(members) > t)
        for t in range(-1, 7)
        if np.mean(np.array(controls) > t) <= fpr + 1e-12
    ]
    assert roc.tpr_at_fpr(members, controls, fpr).value == pytest.approx(max(allowed))


def test_a_rate_below_one_control_is_refused():
    scores = np.arange(99.0)
    refused = roc.tpr_at_fpr(scores, scores, 0.01)
    assert (refused.value, refused.ci) == (None, None)
    assert "at least 100 controls" in refused.method
    enough = roc.tpr_at_fpr([98.5, 200.0], np.arange(100.0), 0.01)
    assert enough.value == 1.0  # above 98, as 99 alone is 1 %
    assert "Clopper-Pearson" in enough.method and enough.n == 2
    assert roc.tpr_at_fpr([97.5, 200.0], np.arange(100.0), 0.01).value == 0.5
    assert roc.tpr_at_fpr([], np.arange(100.0), 0.01).value is None


SIZES = [(500, 100), (100, 100), (60, 120), (100, 500), (400, 800)]


def errors(n, m, fpr, truth, draw, runs):
    """How often the truth lies below the low end, and above the high one."""
    below = above = 0
    for _ in range(runs):
        found = roc.tpr_at_fpr(draw(n, True), draw(m, False), fpr)
        assert found.low <= found.value <= found.high
        below, above = below + (truth < found.low - 1e-9), above + (truth > found.high + 1e-9)
    return below / runs, above / runs


@repeats(200, RUNS)
@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(("n", "m", "fpr"), [(*s, 0.01) for s in SIZES] + [(60, 20, 0.05)])
def test_its_interval_covers_the_rate_at_the_threshold_of_all_controls(n, m, fpr, shift, runs):
    """Few controls hardly place their last percent: an interval given theirs covers 25 to 90 %."""
    generator = np.random.default_rng(0)
    truth = norm.sf(norm.isf(fpr) - shift)
    draw = lambda k, member: generator.normal(size=k) + shift * member  # noqa: E731
    assert max(errors(n, m, fpr, truth, draw, runs)) <= most(runs)


def most(runs):
    """The largest share of errors at one end, where at most 2.5 % err."""
    return 0.025 + 3 * math.sqrt(0.025 * 0.975 / runs)


@repeats(200, RUNS)
@pytest.mark.parametrize(("n", "m"), [(500, 100), (60, 20), (100, 700)])
def test_it_covers_with_ties_too(n, m, runs):
    """Of integers, the controls above 1.5: 6.7 %; so the threshold for a twentieth is 2."""
    generator = np.random.default_rng(1)
    draw = lambda k, member: np.round(generator.normal(size=k) + member)  # noqa: E731
    assert max(errors(n, m, 0.05, norm.sf(1.5), draw, runs)) <= most(runs)


def test_it_covers_where_all_scores_are_alike():
    found = roc.tpr_at_fpr(np.zeros(60), np.zeros(500), 0.05)
    assert (found.value, found.low) == (0.0, 0.0) and found.high < 0.08


def likely(n, p):
    """Outcomes of Bin(n, p) and their probabilities, but for 10⁻⁵ at each end."""
    counts = np.arange(binom.ppf(1e-5, n, p), binom.isf(1e-5, n, p) + 1).astype(int)
    return zip(counts.tolist(), binom.pmf(counts, n, p).tolist(), strict=True)


def scores(n, above):
    return np.repeat([1.0, 0.0], [above, n - above])


@pytest.mark.parametrize(
    ("n", "m", "passing", "end", "near"),
    [
        (200, 100, 0.04, "high", 0.012),
        (200, 100, 0.05, "high", 0.02),  # exactly at the edge: the most that is allowed is 0.025
        (60, 500, 0.05, "high", 0.02),
        (60, 20, 0.05, "high", 0.014),
        (200, 100, 0.0501, "low", 0.005),  # the threshold alone errs here: 0.0125 is allowed
        (60, 500, 0.0501, "low", 0.01),
    ],
)
def test_of_two_scores_it_errs_nearly_as_often_as_it_may(n, m, passing, end, near):
    """Summed over all outcomes: 20 % of the members and `passing` of the controls score 1.

    The threshold for a twentieth is 0 as long as a twentieth of all controls pass it, else 1.
    """
    truth = 0.2 if passing <= 0.05 else 0.0
    wrong = {"low": 0.0, "high": 0.0}
    for (j, of_controls), (k, of_members) in itertools.product(likely(m, passing), likely(n, 0.2)):
        found = roc.tpr_at_fpr(scores(n, k), scores(m, j), 0.05)
        wrong["low"] += of_controls * of_members * (truth < found.low - 1e-9)
        wrong["high"] += of_controls * of_members * (truth > found.high + 1e-9)
    assert max(wrong.values()) <= 0.025 and wrong["low"] <= 0.0125
    assert wrong[end] >= near


def test_its_ends_are_those_of_the_members_above_two_controls():
    """Of 500, the 12th and the first from above: 0.5 % have so many above it, 0.7 % none."""
    controls, members = np.arange(500.0), np.array([486.5] * 10 + [487.5] * 20 + [600.0] * 30)
    r = next(r for r in range(501) if binom.sf(r - 1, 500, 0.01) <= 0.0125)
    s = max(s for s in range(1, 501) if binom.cdf(s - 1, 500, 0.01) <= 0.0125)
    assert (controls[500 - r], controls[500 - s]) == (488.0, 499.0)
    members[10:20] = 488.5
    found = roc.tpr_at_fpr(members, controls, 0.01)
    assert found.value == 30 / 60  # above 494
    assert binom.cdf(40, 60, found.high) == pytest.approx(0.0125)
    assert binom.sf(29, 60, found.low) == pytest.approx(0.0125)


@pytest.mark.parametrize(("controls", "known"), [(100, False), (436, False), (437, True)])
def test_few_controls_leave_its_low_end_open(controls, known):
    found = roc.tpr_at_fpr(np.full(50, 1e9), np.arange(float(controls)), 0.01)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == (pytest.approx(0.0125 ** (1 / 50)) if known else 0.0)


@given(side, side)
def test_the_curve_rises_from_no_false_positive_to_all(members, controls):
    steps = roc.curve(members, controls)
    assert steps[0] == (0.0, np.mean(np.array(members) > max(controls)))
    assert steps[-1] == (1.0, 1.0)
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(steps))
    for fpr, tpr in steps[1:]:
        assert tpr == pytest.approx(roc.tpr_at_fpr(members, controls, fpr).value)


def test_without_ties_the_steps_enclose_the_area():
    generator = np.random.default_rng(0)
    members, controls = generator.normal(size=70) + 1, generator.normal(size=50)
    steps = roc.curve(members, controls, points=5000)
    assert len(steps) == 51
    area = sum((b[0] - a[0]) * a[1] for a, b in itertools.pairwise(steps))
    assert area == pytest.approx(roc.auc(members, controls).value)


def test_thinning_keeps_the_low_end():
    generator = np.random.default_rng(0)
    steps = roc.curve(generator.normal(size=9000) + 1, generator.normal(size=20000))
    assert 150 < len(steps) <= 202
    assert [round(fpr * 20000) for fpr, _ in steps[:4]] == [0, 1, 2, 3]
    assert roc.curve([], [1.0]) == []
    assert roc.curve([-math.inf, 0.0], [-math.inf])[-1] == (1.0, 1.0)


# --- accuracies


def test_the_upper_half_of_equal_sides():
    found = roc.top_half_accuracy([4.0, 3.0, 1.0], [2.0, 0.0, -1.0])
    assert found.value == pytest.approx(2 / 3)  # 4, 3 and 2 are called
    assert roc.top_half_accuracy([1.0] * 9, [0.0] * 9).value == 1.0
    assert roc.top_half_accuracy([1.0], [1.0, 1.0]).value == 0.5
    assert roc.top_half_accuracy([2.0], [1.0, 0.0, 0.0]).value == pytest.approx(5 / 6)
    assert roc.top_half_accuracy([], [1.0]).value is None


def test_ties_at_the_boundary_are_broken_fairly():
    members, controls = [1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 1.0, 0.0, -1.0, 0.0]
    generator, scores = np.random.default_rng(0), np.array([*members, *controls])
    found = []
    for _ in range(20000):
        called = np.lexsort([generator.random(10), scores])[5:]
        right = (called < 4).sum()
        found.append(right / 8 + (6 - (5 - right)) / 12)
    assert roc.top_half_accuracy(members, controls).value == pytest.approx(np.mean(found), abs=2e-3)


@repeats(200, RUNS)
@pytest.mark.parametrize(("n", "m"), [(5, 500), (500, 5), (30, 30), (3, 3)])
@pytest.mark.parametrize("shift", [0.0, 2.0])
@pytest.mark.parametrize("rounded", [False, True])
def test_its_interval_covers_the_accuracy_on_new_candidates(n, m, shift, rounded, runs):
    generator, covered, chance = np.random.default_rng(0), 0, 0
    levels = np.arange(-9, 12)
    for _ in range(runs):
        members, controls = generator.normal(shift, 1, n), generator.normal(size=m)
        if rounded:
            members, controls = np.round(members), np.round(controls)
        found = roc.top_half_accuracy(members, controls)
        everyone = np.sort(np.concatenate([members, controls]))[::-1]
        edge = everyone[(n + m + 1) // 2 - 1]
        if rounded:
            share = ((n + m) / 2 - (everyone > edge).sum()) / (everyone == edge).sum()
            weight = (levels > edge) + share * (levels == edge)
            tpr, fpr = (
                np.sum(weight * (norm.cdf(levels + 0.5 - at) - norm.cdf(levels - 0.5 - at)))
                for at in (shift, 0.0)
            )
        else:
            tpr, fpr = norm.sf(edge - shift), norm.sf(edge)
        truth = (1 + tpr - fpr) / 2
        covered += found.low <= truth <= found.high
        chance += found.low <= 0.5 <= found.high
    assert covered / runs >= least(runs)
    assert shift > 0 or chance / runs >= least(runs)


def test_five_hundred_a_side_are_told_within_seven_points():
    found = roc.top_half_accuracy(np.arange(500.0) + 80, np.arange(500.0))
    assert found.value - found.low == pytest.approx(0.0662, abs=1e-4)


@repeats(200, RUNS)
@pytest.mark.parametrize(("n", "m"), [(2, 2), (4, 4), (6, 9), (12, 12), (60, 60), (5, 400)])
@pytest.mark.parametrize("tied", [False, True])
def test_choosing_the_extremes_is_no_evidence_by_itself(n, m, tied, runs):
    generator, refuted = np.random.default_rng(1), 0
    for _ in range(runs):
        scores = generator.normal(size=n + m)
        scores = np.round(scores) if tied else scores
        found = roc.refined_accuracy(scores[:n], scores[n:], generator)
        refuted += not found.low <= 0.5 <= found.high
    assert refuted / runs <= 1 - least(runs)


def test_the_extremes_of_scores_that_know_are_called_better():
    generator = np.random.default_rng(0)
    members, controls = generator.normal(size=1000) + 0.7, generator.normal(size=1000)
    whole = roc.top_half_accuracy(members, controls)
    found = roc.refined_accuracy(members, controls, generator)
    assert whole.value == pytest.approx(norm.cdf(0.35), abs=0.03)
    assert found.value > whole.value + 0.1
    assert 260 < found.n < 340  # 0.3 of the other thousand
    cut = brentq(lambda t: norm.sf(t - 0.35) + norm.sf(t + 0.35) - 0.3, 0, 5)
    assert found.value == pytest.approx(norm.sf(cut - 0.35) / 0.3, abs=0.06)


class InOrder:
    """A stream that leaves the order alone."""

    def permutation(self, scores):
        return scores


def test_the_first_half_sets_the_thresholds_and_the_other_is_called():
    members = [1.0, 2.0, 3.0, 4.0, 9.0, 8.0, 0.5, 5.0]
    controls = [5.0, 6.0, 7.0, 8.0, 0.0, 9.0, 1.0, 4.0]
    found = roc.refined_accuracy(members, controls, InOrder(), share=0.5)  # below 2, above 7
    assert (found.n, found.value) == (6, pytest.approx(4 / 6))


def test_no_extremes_no_accuracy():
    flat = roc.refined_accuracy([1.0] * 9, [1.0] * 9, np.random.default_rng(0))
    assert (flat.value, flat.n, flat.ci) == (None, 0, (0.0, 1.0))
    assert roc.refined_accuracy([1.0], [0.0] * 9, np.random.default_rng(0)).value is None


@pytest.mark.parametrize("bad", [[math.nan], [[1.0]]])
@pytest.mark.parametrize("method", [roc.auc, roc.curve, roc.top_half_accuracy])
def test_bad_scores_are_refused(method, bad):
    with pytest.raises(ValueError):
        method(bad, [1.0])
    with pytest.raises(ValueError):
        method([1.0], bad)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="confidence"):
        roc.auc([1.0], [1.0], 1.0)
    for fpr in (0.0, 1.1, math.nan):
        with pytest.raises(ValueError, match="rate"):
            roc.tpr_at_fpr([1.0], [1.0], fpr)
    with pytest.raises(ValueError, match="share"):
        roc.refined_accuracy([1.0], [1.0], np.random.default_rng(0), share=1.0)


def test_the_accuracys_interval_is_two_bands_wide():
    """DKW at α/2 a side moves each rate by √(log(4/α)/2n), and the accuracy by half of both."""
    found = roc.top_half_accuracy(np.arange(400.0) + 200.0, np.arange(400.0))
    band = math.sqrt(math.log(4.0 / 0.05) / 800.0)
    assert found.ci == pytest.approx((found.value - band, found.value + band), abs=1e-12)
    assert found.value == pytest.approx(0.75)
