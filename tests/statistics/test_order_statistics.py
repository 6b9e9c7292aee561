"""Bounds of medians and quantiles: which order statistics, and their coverage for any law."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from audit.statistics.order_statistics import median_interval, upper_quantile
from tests.simulations import most, repeats


@given(st.integers(1, 300), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_median_has_the_innermost_covering_pair(n, confidence):
    found = median_interval(np.arange(1.0, n + 1), confidence)
    assert found.value == (n + 1) / 2
    if found.low is None:
        assert 2 * 0.5**n > 1 - confidence - 1e-12
        return
    j = int(found.low)
    assert found.high == n + 1 - j
    assert 2 * binom.cdf(j - 1, n, 0.5) <= 1 - confidence + 1e-9
    assert j == (n + 1) // 2 or 2 * binom.cdf(j, n, 0.5) > 1 - confidence


def test_the_textbook_pairs():
    assert median_interval(range(10)).ci == (1.0, 8.0)  # the 2nd and 9th of 10
    assert median_interval(range(6)).ci == (0.0, 5.0)
    five = median_interval([3.0, 1.0, 2.0, 9.0, 4.0])
    assert (five.value, five.ci, five.n) == (3.0, None, 5)
    assert "too few" in five.method
    assert median_interval([]).value is None


LAWS = {
    "normal": (lambda draw, shape: draw.normal(size=shape), 0.0),
    "lognormal": (lambda draw, shape: np.exp(3 * draw.normal(size=shape)), 1.0),
    "coin": (lambda draw, shape: (draw.random(shape) < 0.52) * 1.0, 1.0),
    "lopsided": (lambda draw, shape: (draw.random(shape) < 0.05) * 1.0, 0.0),
    "three": (lambda draw, shape: draw.integers(0, 3, shape) * 1.0, 1.0),
    "far": (lambda draw, shape: np.where(draw.random(shape) < 0.49, np.inf, 0.0), 0.0),
}


@repeats(100, 2000)
def test_intervals_cover_the_median_of_any_law(runs):
    for (law, (sample, median)), n in itertools.product(LAWS.items(), (6, 21, 60)):
        rows = sample(np.random.default_rng(n), (runs, n))
        found = [median_interval(row) for row in rows]
        missed = np.mean([not x.low <= median <= x.high for x in found])
        assert missed <= most(runs), (law, n)


def test_infinite_values_move_their_own_bound():
    found = median_interval([1.0] * 8 + [math.inf] * 2)
    assert (found.value, found.ci) == (1.0, (1.0, math.inf))
    assert median_interval([1.0, math.inf]).value == math.inf


@given(st.integers(1, 400), st.floats(0.001, 0.999), st.sampled_from([0.0125, 0.025, 0.2]))
def test_quantile_has_the_innermost_covering_pair(n, share, error):
    """Ascending 1 … n, so that a value is its own place."""
    low, high = upper_quantile(np.arange(1.0, n + 1), share, error)
    r = n + 1 if low == -math.inf else int(n + 1 - low)
    s = 0 if high == math.inf else int(n + 1 - high)
    assert binom.sf(r - 1, n, share) <= error < binom.sf(r - 2, n, share) + 1e-12
    assert binom.cdf(s - 1, n, share) <= error < binom.cdf(s, n, share) + 1e-12


def test_highest_percentile_is_bounded_from_437_values():
    """0.99^437 < 1/80."""
    assert [upper_quantile(range(n), 0.01, 0.0125)[1] for n in (436, 437)] == [math.inf, 436.0]
    assert upper_quantile(range(100), 0.01, 0.0125)[0] == 95.0  # P[Bin(100, 1 %) >= 5] = 0.3 %


QUANTILES = {"normal": 1.2815515655, "coin": 1.0, "lopsided": 0.0, "three": 2.0}


@repeats(100, 2000)
def test_each_side_of_a_quantile_errs_at_level(runs):
    """The least x that at most a tenth of the law lies above."""
    for (law, quantile), n in itertools.product(QUANTILES.items(), (7, 40, 300)):
        rows = np.sort(LAWS[law][0](np.random.default_rng(n), (runs, n)), axis=1)
        found = np.array([upper_quantile(row, 0.1, 0.05) for row in rows])
        assert np.mean(found[:, 0] > quantile) <= most(runs), (law, n)
        assert np.mean(found[:, 1] < quantile) <= most(runs), (law, n)


def test_error_at_the_limit_is_allowed():
    """One value lies on the wrong side of the median with probability 1/2, on either side."""
    assert upper_quantile([1.0], 0.5, 0.5) == (1.0, 1.0)
    assert upper_quantile([1.0], 0.5, 0.4999) == (-math.inf, math.inf)
