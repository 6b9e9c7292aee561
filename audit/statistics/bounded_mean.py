"""An interval for the mean of few independent values in [0, 1], of any laws, by binomial tails.

(Derived.) Let A be the expected mean of k values. Then E φ(mean) <= E φ(Bin(k, A)/k) for every
convex φ (Hoeffding 1956 and 1963), and by Markov's inequality the mean reaches that of the upper
α/2-tail of Bin(k, A)/k with probability at most α/2; likewise below. The same holds of any average
of such means, however dependent.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike

from audit.statistics.binomial import tail as binomial_tail
from audit.statistics.checks import check_confidence
from audit.statistics.interval import Interval, IntervalKind, no_interval
from audit.statistics.search import largest

METHOD = "binomial tail means, two-sided"
_WIDTH = 1e-9


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Compute the mean of n independent values in [0, 1], and a two-sided interval for its
    expectation.

    values: (n,). It allows for values that were not drawn: n zeros have the interval of no hit in n
    trials, where a bootstrap's has no width. Without values there is neither a mean nor an
    interval. Raises ValueError for a value outside [0, 1], NaN, more than one row, or a confidence
    outside (0, 1).
    """
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1 or not ((row >= 0.0) & (row <= 1.0)).all():
        raise ValueError("values must be one row within [0, 1]")
    check_confidence(confidence)
    n = len(row)
    if n == 0:
        return no_interval(0, confidence, "no values: nothing was measured")
    mean = float(row.mean())
    low, high = bounds(mean, n, confidence)
    return Interval(mean, low, high, n, confidence, METHOD, IntervalKind.BOUNDED_MEAN)


def bounds(mean: float, k: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute (low, high) for a mean of k such values, or for an average of means of k."""
    tail = (1.0 - confidence) / 2.0
    return _lower(mean, k, tail), 1.0 - _lower(1.0 - mean, k, tail)


def _lower(mean: float, k: int, tail: float) -> float:
    """Find the largest A for which Bin(k, A)/k has an upper tail with a mean below `mean`."""

    def below(a: float) -> bool:
        cut = bisect_left(range(k), True, key=lambda c: binomial_tail(c + 1, k, a) <= tail)
        excess = k * a * binomial_tail(cut, k - 1, a) - cut * binomial_tail(cut + 1, k, a)
        return cut + excess / tail < k * mean  # excess: E(B - cut)_+

    return largest(below, 0.0, mean, _WIDTH)
