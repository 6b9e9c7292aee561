"""The mean of a few independent values with Student's interval (Biometrika 6, 1908)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import stdtrit

from audit.statistics.interval import Interval


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean of n independent values, and the interval that t on n - 1 degrees gives it.

    Exact where the values are normal. One value has no interval, nor have equal ones, whose spread
    is unknown and not 0; a value of +inf makes the mean +inf, without one. Raises ValueError for
    no value, NaN or -inf, or confidence outside (0, 1).
    """
    if not values or any(math.isnan(v) or v == -math.inf for v in values):
        raise ValueError(f"a mean needs values, finite or +inf; got {list(values)}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1; got {confidence}")
    n = len(values)
    mean, method = math.fsum(values) / n, f"mean of {n}, t-interval"
    if math.isinf(mean) or min(values) == max(values):
        return Interval(mean, None, None, n, confidence, f"mean of {n}, no interval")

    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    half = float(stdtrit(n - 1, 1 - (1 - confidence) / 2)) * spread
    return Interval(mean, mean - half, mean + half, n, confidence, method)
