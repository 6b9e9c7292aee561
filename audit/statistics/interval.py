"""An interval as a noun: a number with its bounds, and how they were computed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class IntervalKind(StrEnum):
    """The method of an interval. For code; `Interval.method` is the sentence for readers."""

    CLOPPER_PEARSON = "clopper_pearson"  # a rate: k of n
    WITHHELD_RATE = "withheld_rate"  # a rate of trials of which some are withheld
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
