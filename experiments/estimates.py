"""Estimates what a statement compares, with an interval over seeds at any level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median_low

from audit.core.errors import UsageError
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval
from audit.statistics.stopped_rate import Series, stopped_rate
from audit.statistics.t_interval import t_interval
from experiments.measures import Values

_ROUNDING = 1e-9  # differences of equal values differ by so much, of the largest
Ends = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval.

    middle: NaN where none is known. ends: both ends, infinite where there is none, by the chance
    of missing the truth. test: how it was made.
    """

    middle: float
    ends: Callable[[float], Ends]
    test: str

    def moved(self, function: Callable[[float], float]) -> Estimate:
        """Return the estimate of a function of the number, which rises or falls throughout."""

        def ends(level: float) -> Ends:
            one, other = map(function, self.ends(level))
            return min(one, other), max(one, other)

        return Estimate(function(self.middle), ends, self.test)


def nothing(why: str) -> Estimate:
    """Make an estimate that says nothing."""
    return Estimate(math.nan, lambda _: (-math.inf, math.inf), why)


def difference(one: Values, other: Values, times: float, seedless: bool) -> Estimate:
    """Estimates `times` times `one` less `other`: of logarithms for perplexities.

    Seeds are paired. Where a session stopped within a trial, its seeds' shares are no longer alike,
    and the rates of these models are compared. Raises UsageError for measures that are not alike.
    """
    if one.log != other.log or one.seeds != other.seeds:
        raise UsageError(f"{one.name!r} and {other.name!r} cannot be compared")
    if any(one.cut) or any(other.cut):
        return _of_rates(one, other, times)

    def subtracted(a: float, b: float) -> float:
        return math.log(times) + math.log(a) - math.log(b) if one.log else times * a - b

    pairs = list(zip(one.ends, other.ends, strict=True))
    lows = [subtracted(a[0], b[1]) for a, b in pairs]
    highs = [subtracted(a[1], b[0]) for a, b in pairs]
    return _over_seeds(lows, highs, seedless)


def _over_seeds(lows: Sequence[float], highs: Sequence[float], seedless: bool) -> Estimate:
    """Estimates by the t-interval of the mean, or by the median.

    The median serves where values are equal, but for rounding, and where only their ends, lows and
    highs, are known; then it has no middle.
    """
    n, exact = len(lows), lows == highs
    equal = exact and max(lows) - min(lows) <= _ROUNDING * max(1.0, *map(abs, lows))
    if exact and not equal:
        test = f"differences of {n} seeds, t-interval"
        mean = math.fsum(low / n for low in lows)
        return Estimate(mean, lambda level: _ends(t_interval(lows, 1 - level)), test)

    def ends(level: float) -> Ends:
        holds = (equal and seedless) or 2.0 ** (1 - n) <= level
        return (min(lows), max(highs)) if holds else (-math.inf, math.inf)

    test = f"differences of {n} seeds, least and largest"
    return Estimate(median_low(lows) if exact else math.nan, ends, test)


def rate(seen: Values) -> Estimate:
    """Estimates a rate of trials: that of all, or the mean of the seeds' where sessions may stop.

    Both speak of these models alone.
    """
    if seen.may_stop:
        return _mean_rate(seen)
    counts = seen.counts or ()
    k, n = (sum(column) for column in zip(*counts, strict=True))
    test = f"{k} of {n} trials of {len(counts)} seeds, Clopper-Pearson"
    pooled = clopper_pearson(k, n)
    middle = math.nan if pooled.value is None else pooled.value
    return Estimate(middle, lambda level: _ends(clopper_pearson(k, n, 1 - level)), test)


def _of_rates(one: Values, other: Values, times: float) -> Estimate:
    if one.counts is None or other.counts is None:
        raise UsageError(f"{one.name!r} and {other.name!r} cannot be compared: a session stopped")
    a, b = _mean_rate(one), _mean_rate(other)

    def ends(level: float) -> Ends:
        (low, high), (from_, to) = a.ends(level / 2), b.ends(level / 2)
        return times * low - to, times * high - from_

    return Estimate(times * a.middle - b.middle, ends, f"{a.test} against {b.test}")


def _mean_rate(seen: Values) -> Estimate:
    """Estimates the mean of the seeds' rates."""
    counts = seen.counts or ()
    series = [Series(k, n, cut) for (k, n), cut in zip(counts, seen.cut, strict=True)]
    middle = stopped_rate(series).value
    trials = ", ".join(f"{one.k} of {one.n}" for one in series)
    return Estimate(
        math.nan if middle is None else middle,
        lambda level: _ends(stopped_rate(series, 1 - level)),
        f"{trials} trials, mixture likelihood ratio",
    )


def _ends(interval: Interval) -> Ends:
    """Return both ends; an interval that is not known reaches everywhere."""
    low = -math.inf if interval.low is None else interval.low
    return low, math.inf if interval.high is None else interval.high
