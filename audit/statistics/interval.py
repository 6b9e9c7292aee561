"""Intervals, and the exact ones for a rate: Clopper and Pearson (Biometrika 26, 1934)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from scipy.special import betaincinv

from audit.statistics.checks import check_confidence, check_hits


class IntervalKind(StrEnum):
    """The method of an interval. For code; `Interval.method` is the sentence for readers."""

    CLOPPER_PEARSON = "clopper_pearson"  # a rate: k of n
    STOPPED_RATE = "stopped_rate"  # a rate whose trials may stop by how they come out
    CLOPPER_PEARSON_AT_QUANTILE = "clopper_pearson_at_quantile"  # above an estimated threshold
    BOUNDED_MEAN = "bounded_mean"  # a mean of values in [0, 1], an AUC
    ORDER_STATISTICS = "order_statistics"  # a median
    DKW_BAND = "dkw_band"  # as far from the value on both sides
    BOOTSTRAP = "bootstrap"
    PERMUTATION = "permutation"
    T = "t"
    EXACT = "exact"  # of the very units measured, no sample of more
    WHOLE_RANGE = "whole_range"  # too few data: all values that are possible
    NONE = "none"  # no bounds
    OTHER = "other"  # its maker does not say


@dataclass(frozen=True)
class Interval:
    """A number with its interval, the count n behind it, its confidence, its method and its kind.

    sizes: of the samples behind it where these are several, as of members and of controls.

    None means "the data do not determine it" (a rate of no trials, an interval from one record);
    NaN is refused. Raises ValueError for NaN, for only one bound, or for low > high.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    confidence: float
    method: str
    kind: IntervalKind = IntervalKind.OTHER
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for number in (self.value, self.low, self.high, self.confidence):
            if number is not None and number != number:
                raise ValueError("an interval cannot hold NaN; use None for what is not known")
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two bounds or none")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"interval bounds are reversed: {self.low} > {self.high}")

    @property
    def ci(self) -> tuple[float, float] | None:
        """(low, high), or None where the data give no interval."""
        if self.low is None or self.high is None:
            return None
        return (self.low, self.high)


def no_interval(n: int, confidence: float, method: str, value: float | None = None) -> Interval:
    """Make an Interval without bounds, and without a value unless one is given."""
    return Interval(value, None, None, n, confidence, method, IntervalKind.NONE)


def clopper_pearson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Compute the two-sided exact interval for a rate, from k hits in n independent trials.

    Covers the true rate with probability at least `confidence`, whatever the rate. With n = 0 the
    value is None and the interval [0, 1]. Raises ValueError unless 0 <= k <= n and
    0 < confidence < 1.
    """
    _check(k, n, confidence)
    each_side = 1.0 - (1.0 - confidence) / 2.0
    return Interval(
        value=k / n if n else None,
        low=one_sided_lower(k, n, each_side),
        high=one_sided_upper(k, n, each_side),
        n=n,
        confidence=confidence,
        method="Clopper-Pearson, two-sided",
        kind=IntervalKind.CLOPPER_PEARSON,
    )


# scipy's binomtest(...).proportion_ci solves for the same limits to 1e-12 only, a thousand times
# slower, and scipy.stats would weigh on commands that must start fast.


def one_sided_upper(k: int, n: int, confidence: float = 0.95) -> float:
    """Compute the rate at which k hits or fewer in n trials have probability 1 - confidence.

    The true rate lies at or below it with probability at least `confidence`; 1.0 if k = n.
    Raises ValueError as `clopper_pearson` does.
    """
    _check(k, n, confidence)
    return 1.0 if k == n else float(betaincinv(k + 1, n - k, confidence))


def one_sided_lower(k: int, n: int, confidence: float = 0.95) -> float:
    """Compute the rate at which k hits or more in n trials have probability 1 - confidence.

    The true rate lies at or above it with probability at least `confidence`; 0.0 if k = 0.
    Raises ValueError as `clopper_pearson` does.
    """
    _check(k, n, confidence)
    return 0.0 if k == 0 else float(betaincinv(k, n - k + 1, 1.0 - confidence))


def _check(k: int, n: int, confidence: float) -> None:
    check_hits(k, n)
    check_confidence(confidence)
