"""The mean of a few independent values with Student's interval (Biometrika 6, 1908)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import scipy

from audit.statistics.checks import check_confidence
from audit.statistics.interval import Interval, IntervalKind, no_interval

# how often 95 % intervals of 2 to 10 values hold the true mean, in words
COVERAGE = "covers 95 % for normal values, 88 to 91 % for skewed, exponential ones"


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Compute the mean of n independent values, and its t interval on n - 1 degrees of freedom.

    Exact where the values are normal; skewed ones are covered less often (COVERAGE). There is no
    interval for one value, nor for equal ones, whose spread is unknown rather than 0, nor where a
    value, and so the mean, is +inf. Raises ValueError for no value, NaN or -inf, or confidence
    outside (0, 1).
    """
    if not values or any(math.isnan(v) or v == -math.inf for v in values):
        raise ValueError(f"a mean needs values, finite or +inf; got {list(values)}")
    check_confidence(confidence)
    n = len(values)
    mean = math.fsum(values) / n
    if math.isinf(mean) or min(values) == max(values):
        return no_interval(n, confidence, f"mean of {n}, no interval", mean)
    error = scipy.stats.sem(values)
    low, high = map(float, scipy.stats.t.interval(confidence, n - 1, mean, error))
    method = f"mean of {n}, t-interval, exact for normal values"
    return Interval(mean, low, high, n, confidence, method, IntervalKind.T)
