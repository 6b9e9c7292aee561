"""The interval that as many trials would give if a measurement had another value.

Interval width depends on the value, so whether an increase would be detected is decided with the
interval at the increased value.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from audit.results.measurement import Measurement
from audit.statistics import bounded_mean
from audit.statistics.interval import Interval, IntervalKind
from audit.statistics.stopped_rate import Series, stopped_rate
from audit.statistics.withheld_rate import withheld_rate

Ends = Callable[[float], tuple[float, float]]


def at(one: Measurement, value: float, most: float) -> Interval | None:
    """Compute the interval of as many trials at this value; None where it depends on more.

    A true positive rate depends on more: on how far the members score above the controls.
    most: the end of the scale; inf if it is unknown.
    """
    bounds = ends(one, most)
    if bounds is None:
        return None
    return Interval(value, *bounds(value), one.n, one.confidence, "as many trials")


def ends(one: Measurement, most: float) -> Ends | None:
    """Find the function from a strength to the ends of its interval; see `at`."""
    kind = _KINDS.get(one.kind)
    return None if kind is None or one.ci is None or math.isinf(most) else kind(one, most)


def _median(one: Measurement, most: float) -> Ends | None:
    """Keep both sides as wide as the wider side is now; None if they span the scale."""
    value, low, high = one.value or 0.0, *(one.ci or (0.0, math.inf))
    if low <= 0.0 and high >= most:
        return None
    side = max(value - low, high - value)
    return lambda value: (max(0.0, value - side), min(most, value + side))


def _mean(one: Measurement, most: float) -> Ends:
    """Bound an AUC by its smaller sample, or a mean over secrets."""
    k = min(one.sizes, default=one.n)
    return lambda value: bounded_mean.bounds(value, k, one.confidence)


def _rate(one: Measurement, most: float) -> Ends:
    """Bound a rate by the hits just below and just above it."""

    def interval(k: int) -> Interval:
        if one.kind is IntervalKind.STOPPED_RATE:
            return stopped_rate([Series(k, one.n)], one.confidence)
        return withheld_rate(k, one.n, min(one.withheld, one.n - k), one.confidence)

    def bounds(value: float) -> tuple[float, float]:
        least, most = math.floor(value * one.n), math.ceil(value * one.n)
        return interval(least).low or 0.0, interval(most).high or 1.0

    return bounds


def _band(one: Measurement, most: float) -> Ends | None:
    """Keep a band of constant width; None where the scale cuts it."""
    low, high = one.ci or (0.0, 1.0)
    if low <= 0.0 or high >= 1.0:
        return None
    side = (high - low) / 2.0
    return lambda value: (max(0.0, value - side), min(1.0, value + side))


_KINDS: dict[IntervalKind, Callable[[Measurement, float], Ends | None]] = {
    IntervalKind.ORDER_STATISTICS: _median,
    IntervalKind.BOUNDED_MEAN: _mean,
    IntervalKind.CLOPPER_PEARSON: _rate,
    IntervalKind.WITHHELD_RATE: _rate,
    IntervalKind.STOPPED_RATE: _rate,
    IntervalKind.DKW_BAND: _band,
}
