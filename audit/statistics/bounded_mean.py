"""The mean of few independent values in [0, 1], of any laws: an interval from binomial tails.

(Derived.) Let A be the expected mean of k values. Then E φ(mean) <= E φ(Bin(k, A)/k) for every
convex φ (Hoeffding 1956 and 1963), and by Markov's inequality the mean reaches that of the upper
α/2-tail of Bin(k, A)/k with probability at most α/2; likewise below. The same holds of any average
of such means, however dependent.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from audit.statistics.interval import Interval

METHOD = "binomial tail means, two-sided"
_WIDTH = 1e-9


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """The mean of n independent values in [0, 1] and a two-sided interval for its expectation.

    values: (n,). It knows of values that were not drawn: n zeros have the interval of no hit in n
    trials, where a bootstrap has one of no width. Without values there is neither a mean nor an
    interval. Raises ValueError for a value outside [0, 1], NaN, more than one row, or a confidence
    outside (0, 1).
    """
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1 or not ((row >= 0.0) & (row <= 1.0)).all():
        raise ValueError("values must be one row within [0, 1]")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1; got {confidence}")
    n = len(row)
    if n == 0:
        return Interval(None, None, None, 0, confidence, "no values: nothing was measured")
    mean = float(row.mean())
    return Interval(mean, *bounds(mean, n, confidence), n, confidence, METHOD)


def bounds(mean: float, k: int, confidence: float = 0.95) -> tuple[float, float]:
    """(low, high) for a mean of k such values, or for an average of means of k."""
    tail = (1.0 - confidence) / 2.0
    return _lower(mean, k, tail), 1.0 - _lower(1.0 - mean, k, tail)


def _lower(mean: float, k: int, tail: float) -> float:
    """The largest A for which Bin(k, A)/k has an upper tail with a mean below `mean`."""
    low, high = 0.0, mean
    while high - low > _WIDTH:
        a = (low + high) / 2.0
        cut = bisect_left(range(k), True, key=lambda c: _at_least(c + 1, k, a) <= tail)
        excess = k * a * _at_least(cut, k - 1, a) - cut * _at_least(cut + 1, k, a)  # E(B - cut)_+
        low, high = (a, high) if cut + excess / tail < k * mean else (low, a)
    return low


def _at_least(count: int, k: int, a: float) -> float:
    """P[Bin(k, a) >= count]."""
    if not 0 < count <= k:
        return float(count <= 0)
    return float(betainc(count, k - count + 1, a))
