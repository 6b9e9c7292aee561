"""ROC measures against their definitions, and their intervals over all outcomes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm, rankdata

from audit.statistics import bounded_mean, roc
from audit.statistics.clopper_pearson import clopper_pearson
from tests.simulations import most

side = st.lists(st.integers(0, 6), min_size=1, max_size=12)


# --- the area


@given(side, side)
def test_area_is_the_share_of_ordered_pairs(members, controls):
    pairs = [(a > b) + (a == b) / 2 for a in members for b in controls]
    found = roc.auc(members, controls)
    assert found.value == pytest.approx(np.mean(pairs))
    assert 0 <= found.low <= found.value <= found.high <= 1
    turned = roc.auc(controls, members)
    assert turned.ci == pytest.approx((1 - found.high, 1 - found.low), abs=1e-8)


def test_perfect_scores_have_the_exact_interval():
    for n, m in ((1, 1), (3, 3), (5, 500), (60, 60)):
        found = roc.auc(np.ones(n), np.zeros(m))
        assert found.ci == pytest.approx((0.025 ** (1 / min(n, m)), 1.0), abs=1e-8)
        assert found.n == n + m
    assert roc.auc([], [1.0]).value is None
    assert roc.auc([1.0], []).ci is None
    assert roc.auc([-math.inf, 1.0], [-math.inf]).value == 0.75


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
def test_interval_covers_the_true_area(family, area):
    generator, runs = np.random.default_rng(5), 2000
    for n, m in [(3, 3), (5, 500), (500, 5), (30, 30), (60, 60)]:
        members, controls = family(area, lambda size: generator.normal(size=(runs, size)), n, m)
        ranks = rankdata(np.hstack([members, controls]), axis=1)[:, :n].sum(axis=1)
        areas = np.round((ranks - n * (n + 1) / 2) / (n * m), 4)
        ends = {found: bounded_mean.bounds(found, min(n, m)) for found in np.unique(areas)}
        low, high = np.transpose([ends[found] for found in areas])
        assert np.mean((area < low - 1e-4) | (area > high + 1e-4)) <= most(runs), (n, m)
        assert areas.mean() == pytest.approx(area, abs=0.02)


# --- the low end


@given(side, st.lists(st.integers(0, 6), min_size=10, max_size=30), st.floats(0.1, 1))
def test_threshold_is_the_most_permissive_allowed(members, controls, fpr):
    allowed = [
        np.mean(np.array(members) > t)
        for t in range(-1, 7)
        if np.mean(np.array(controls) > t) <= fpr + 1e-12
    ]
    assert roc.tpr_at_fpr(members, controls, fpr).value == pytest.approx(max(allowed))


def test_rate_below_one_control_has_no_value():
    scores = np.arange(99.0)
    refused = roc.tpr_at_fpr(scores, scores, 0.01)
    assert (refused.value, refused.ci) == (None, None)
    assert "at least 100 controls" in refused.method
    enough = roc.tpr_at_fpr([98.5, 200.0], np.arange(100.0), 0.01)
    assert enough.value == 1.0  # above 98, as 99 alone is 1 %
    assert "Clopper-Pearson" in enough.method and enough.n == 2
    assert roc.tpr_at_fpr([97.5, 200.0], np.arange(100.0), 0.01).value == 0.5
    assert roc.tpr_at_fpr([], np.arange(100.0), 0.01).value is None


def test_interval_of_equal_scores_starts_at_zero():
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
def test_interval_errs_nearly_as_often_as_allowed(n, m, passing, end, near):
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


def test_ends_are_of_members_above_two_controls():
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


def test_few_controls_leave_the_low_end_open():
    for controls, low in ((100, 0.0), (436, 0.0), (437, 0.0125 ** (1 / 50))):
        found = roc.tpr_at_fpr(np.full(50, 1e9), np.arange(float(controls)), 0.01)
        assert (found.value, found.high) == (1.0, 1.0)
        assert found.low == pytest.approx(low)


@given(side, side)
def test_curve_rises_from_none_to_all(members, controls):
    steps = roc.curve(members, controls)
    assert steps[0] == (0.0, np.mean(np.array(members) > max(controls)))
    assert steps[-1] == (1.0, 1.0)
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(steps))
    for fpr, tpr in steps[1:]:
        assert tpr == pytest.approx(roc.tpr_at_fpr(members, controls, fpr).value)


def test_curve_without_ties_encloses_the_area():
    generator = np.random.default_rng(0)
    members, controls = generator.normal(size=70) + 1, generator.normal(size=50)
    steps = roc.curve(members, controls, points=5000)
    assert len(steps) == 51
    area = sum((b[0] - a[0]) * a[1] for a, b in itertools.pairwise(steps))
    assert area == pytest.approx(roc.auc(members, controls).value)


def test_thinned_curve_keeps_the_low_end():
    generator = np.random.default_rng(0)
    steps = roc.curve(generator.normal(size=9000) + 1, generator.normal(size=20000))
    assert 150 < len(steps) <= 202
    assert [round(fpr * 20000) for fpr, _ in steps[:4]] == [0, 1, 2, 3]
    assert roc.curve([], [1.0]) == []
    assert roc.curve([-math.inf, 0.0], [-math.inf])[-1] == (1.0, 1.0)


# --- accuracies


def test_accuracy_calls_the_upper_half():
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


def test_extremes_of_informed_scores_are_called_better():
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


def test_first_half_sets_the_thresholds():
    members = [1.0, 2.0, 3.0, 4.0, 9.0, 8.0, 0.5, 5.0]
    controls = [5.0, 6.0, 7.0, 8.0, 0.0, 9.0, 1.0, 1.5]
    found = roc.refined_accuracy(members, controls, InOrder(), share=0.5)  # below 2, above 7
    assert found == clopper_pearson(5, 7)


def test_no_extremes_have_no_accuracy():
    flat = roc.refined_accuracy([1.0] * 9, [1.0] * 9, np.random.default_rng(0))
    assert (flat.value, flat.n, flat.ci) == (None, 0, (0.0, 1.0))
    assert roc.refined_accuracy([1.0], [0.0] * 9, np.random.default_rng(0)).value is None


def test_accuracy_interval_is_two_bands_wide():
    """DKW at α/2 a side moves each rate by √(log(4/α)/2n), and the accuracy by half of both."""
    found = roc.top_half_accuracy(np.arange(400.0) + 200.0, np.arange(400.0))
    band = math.sqrt(math.log(4.0 / 0.05) / 800.0)
    assert found.ci == pytest.approx((found.value - band, found.value + band), abs=1e-12)
    assert found.value == pytest.approx(0.75)
