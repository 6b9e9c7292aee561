"""Bounds of medians and quantiles: which order statistics."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from audit.statistics.order_statistics import median_interval, upper_quantile


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


def test_error_at_the_limit_is_allowed():
    """One value lies on the wrong side of the median with probability 1/2, on either side."""
    assert upper_quantile([1.0], 0.5, 0.5) == (1.0, 1.0)
    assert upper_quantile([1.0], 0.5, 0.4999) == (-math.inf, math.inf)
