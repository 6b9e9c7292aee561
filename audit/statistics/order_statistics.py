"""Exact bounds of medians and quantiles from order statistics (Thompson 1936; David and Nagaraja,
7.1)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, bdtrc

from audit.statistics.checks import check_confidence
from audit.statistics.interval import Interval, IntervalKind, no_interval


def median_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute the median of independent values of one law, between two of their order statistics.

    values: (n,), may hold +inf; the sample's own median is the mean of the middle two. The bounds
    are the j-th value from below and from above. j is the
    largest with 2 P[Bin(n, 1/2) < j] <= 1 - confidence. The closed interval holds every median of
    the law with probability at least `confidence`, whatever the law, ties included: fewer than j
    values are <= a median with at most that binomial probability. With too few values (n < 6 at
    95 %) there is a value and no interval; with none, neither. Raises ValueError for NaN, -inf,
    more than one row, or confidence outside (0, 1).
    """
    row = np.sort(np.asarray(values, dtype=np.float64))
    if row.ndim != 1 or not (row > -math.inf).all():
        raise ValueError("values must be one row, finite or +inf")
    check_confidence(confidence)
    n = len(row)
    if n == 0:
        return no_interval(0, confidence, "no values: nothing was measured")
    value = float((row[(n - 1) // 2] + row[n // 2]) / 2.0)
    j = _rank(n, 1.0 - confidence)
    if j == 0:
        few = f"too few values for an interval at {confidence:.4g}"
        return no_interval(n, confidence, few, value)
    method = f"order statistics {j} and {n + 1 - j} of {n}"
    low, high = float(row[j - 1]), float(row[n - j])
    return Interval(value, low, high, n, confidence, method, IntervalKind.ORDER_STATISTICS)


def _rank(n: int, error: float) -> int:
    """Find the largest j with 2 P[Bin(n, 1/2) <= j - 1] <= error; 0 if there is none."""
    tails = 2.0 * bdtr(np.arange(n // 2 + 1), n, 0.5)
    return int(np.searchsorted(tails, error * (1.0 + 1e-12), side="right"))


def upper_quantile(ordered: ArrayLike, share: float, error: float) -> tuple[float, float]:
    """Compute (low, high), each on the wrong side of the quantile with probability <= error.

    ordered: (n,), independent values of one law, ascending. The quantile is the least x with
    P[value > x] <= share. low is the r-th value from above, r the least with
    P[Bin(n, share) >= r] <= error, else -inf. high is the s-th, s the most with
    P[Bin(n, share) < s] <= error, else inf. Ties only help: at most `share` of the law lies above
    the quantile, and at least `share` at or above it.
    """
    row = np.asarray(ordered, dtype=np.float64)
    n, counts = len(row), np.arange(len(row))
    r = 1 + int((bdtrc(counts, n, share) > error).sum())  # bdtrc(j) is P[Bin > j]
    s = int((bdtr(counts, n, share) <= error).sum())
    return float(row[n - r]) if r <= n else -math.inf, float(row[n - s]) if s else math.inf
