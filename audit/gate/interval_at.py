"""The interval that as many trials would give at another value: what a rise would look like.

An interval is narrower or wider elsewhere, so whether a rise would have shown is asked where it
would have led to. Of which kind an interval is, it says itself: it is the one that this kind gives.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from audit.gate.metric import Metric
from audit.statistics import bounded_mean
from audit.statistics.interval import Interval, one_sided_lower, one_sided_upper

Ends = Callable[[float], tuple[float, float]]

_ROUNDING = 1e-5  # of results, which keep six digits


def at(metric: Metric, value: float, most: float) -> Interval | None:
    """The interval of as many trials where so much leaks; None where that depends on more.

    A true positive rate is such a case: how sure it is depends on how far above the controls the
    members stand. most: the end of the scale; inf if it is not known.
    """
    found = ends(metric, most)
    if found is None:
        return None
    return Interval(value, *found(value), metric.n, metric.confidence, "as many trials")


def ends(metric: Metric, most: float) -> Ends | None:
    """From a strength to the ends of its interval; see `at`."""
    if metric.ci is None or math.isinf(most):
        return None
    if metric.unit == "bits":
        return _spread(metric, most)
    return _mean(metric) or _rate(metric) or _band(metric)


def _spread(metric: Metric, most: float) -> Ends | None:
    """Of a median: as far off on both sides as its farther end is now. The whole scale says nothing
    of that."""
    low, high = metric.strength.ci or (0.0, math.inf)
    if low <= 0.0 and high >= most - _ROUNDING:
        return None
    side = max(metric.value - low, high - metric.value)
    return lambda value: (max(0.0, value - side), min(most, value + side))


def _mean(metric: Metric) -> Ends | None:
    """Of an AUC or a mean over secrets."""
    k = _pairs(metric) if metric.unit == "AUC" else metric.n
    return _if_its(lambda value: bounded_mean.bounds(value, k, metric.confidence), metric)


def _pairs(metric: Metric) -> int:
    """As many as the smaller side of an AUC has; the interval's width says how many these are."""
    low, high = metric.ci or (0.0, 1.0)

    def as_narrow(k: int) -> bool:
        found = bounded_mean.bounds(metric.value, k, metric.confidence)
        return found[1] - found[0] <= high - low + _ROUNDING / 2

    return 1 + bisect_left(range(1, metric.n // 2 + 1), True, key=as_narrow)


def _rate(metric: Metric) -> Ends | None:
    """Of hits whose share is known, and not their number."""
    n, each = metric.n, (1.0 + metric.confidence) / 2.0

    def bounds(value: float) -> tuple[float, float]:
        least, most = math.floor(value * n + _ROUNDING), math.ceil(value * n - _ROUNDING)
        return one_sided_lower(least, n, each), one_sided_upper(most, n, each)

    return _if_its(bounds, metric)


def _band(metric: Metric) -> Ends | None:
    """Of what is equally far from both ends everywhere."""
    low, high = metric.ci or (0.0, 1.0)
    if low <= 0.0 or high >= 1.0:
        return None
    side = (high - low) / 2.0
    return _if_its(lambda value: (max(0.0, value - side), min(1.0, value + side)), metric)


def _if_its(bounds: Ends, metric: Metric) -> Ends | None:
    """The bounds where they are the metric's own at its own value."""
    if metric.n < 1 or not 0.0 <= metric.value <= 1.0 or metric.ci is None:
        return None
    found = zip(bounds(metric.value), metric.ci, strict=True)
    return bounds if all(abs(a - b) <= _ROUNDING for a, b in found) else None
