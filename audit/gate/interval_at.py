"""The interval that as many trials would give if a metric had another value.

Interval width depends on the value, so whether an increase would be detected is decided with the
interval at the increased value.

The kind of an interval is recognised by recomputing it: baselines in use hold an interval without
its method (`Metric`), so no stored word says of which kind it is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from audit.gate.metric import Metric
from audit.statistics import bounded_mean
from audit.statistics.interval import Interval, clopper_pearson
from audit.statistics.stopped_rate import Series, stopped_rate

Ends = Callable[[float], tuple[float, float]]

_ROUNDING = 1e-5  # of results, which have six digits


def at(metric: Metric, value: float, most: float) -> Interval | None:
    """The interval of as many trials at this value; None where it depends on more than the value.

    A true positive rate depends on more: on how far the members score above the controls.
    most: the end of the scale; inf if it is unknown.
    """
    bounds = ends(metric, most)
    if bounds is None:
        return None
    return Interval(value, *bounds(value), metric.n, metric.confidence, "as many trials")


def ends(metric: Metric, most: float) -> Ends | None:
    """The function from a strength to the ends of its interval; see `at`."""
    if metric.ci is None or math.isinf(most):
        return None
    if metric.unit == "bits":
        return _median(metric, most)
    if metric.cut is not None:
        return _rate(metric)
    return _mean(metric) or _rate(metric) or _band(metric)


def _median(metric: Metric, most: float) -> Ends | None:
    """Of a median: both sides as wide as its wider side is now; None if it spans the scale."""
    low, high = metric.strength.ci or (0.0, math.inf)
    if low <= 0.0 and high >= most - _ROUNDING:
        return None
    side = max(metric.value - low, high - metric.value)
    return lambda value: (max(0.0, value - side), min(most, value + side))


def _mean(metric: Metric) -> Ends | None:
    """Of an AUC, or of a mean over secrets."""
    k = _smaller_side(metric) if metric.unit == "AUC" else metric.n
    return _if_own(lambda value: bounded_mean.bounds(value, k, metric.confidence), metric)


def _smaller_side(metric: Metric) -> int:
    """The size of the smaller side of an AUC, which the interval's width determines."""
    low, high = metric.ci or (0.0, 1.0)

    def as_narrow(k: int) -> bool:
        bounds = bounded_mean.bounds(metric.value, k, metric.confidence)
        return bounds[1] - bounds[0] <= high - low + _ROUNDING / 2

    return 1 + bisect_left(range(1, metric.n // 2 + 1), True, key=as_narrow)


def _rate(metric: Metric) -> Ends | None:
    """Of a rate that is stored without its number of hits, or whose session may stop."""
    n = metric.n

    def interval(k: int) -> Interval:
        if metric.cut is not None:
            return stopped_rate([Series(k, n)], metric.confidence)
        return clopper_pearson(k, n, metric.confidence)

    def bounds(value: float) -> tuple[float, float]:
        least, most = math.floor(value * n + _ROUNDING), math.ceil(value * n - _ROUNDING)
        return interval(least).low or 0.0, interval(most).high or 1.0

    return _if_own(bounds, metric)


def _band(metric: Metric) -> Ends | None:
    """Of a value with a band of constant width."""
    low, high = metric.ci or (0.0, 1.0)
    if low <= 0.0 or high >= 1.0:
        return None
    side = (high - low) / 2.0
    return _if_own(lambda value: (max(0.0, value - side), min(1.0, value + side)), metric)


def _if_own(bounds: Ends, metric: Metric) -> Ends | None:
    """The bounds if they give the metric's own interval at its own value."""
    if metric.n < 1 or not 0.0 <= metric.value <= 1.0 or metric.ci is None:
        return None
    pairs = zip(bounds(metric.value), metric.ci, strict=True)
    return bounds if all(abs(a - b) <= _ROUNDING for a, b in pairs) else None
