"""Exact intervals for a rate: Clopper and Pearson (Biometrika 26, 1934)."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.special import betaincinv


@dataclass(frozen=True)
class Interval:
    """A number with its interval, the count n behind it, its confidence and its method.

    None means "the data do not determine it" (a rate of no trials, an interval from one record);
    NaN is refused. Raises ValueError for NaN, for only one bound, or for low > high.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    confidence: float
    method: str

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


def clopper_pearson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Two-sided exact interval for a rate of which k of n independent trials were hits.

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
    )


def one_sided_upper(k: int, n: int, confidence: float = 0.95) -> float:
    """The rate at which k hits or fewer in n trials have probability 1 - confidence.

    The true rate lies at or below it with probability at least `confidence`; 1.0 if k = n.
    Raises ValueError as `clopper_pearson` does.
    """
    _check(k, n, confidence)
    if k == n:
        return 1.0

    return float(betaincinv(k + 1, n - k, confidence))


def one_sided_lower(k: int, n: int, confidence: float = 0.95) -> float:
    """The rate at which k hits or more in n trials have probability 1 - confidence.

    The true rate lies at or above it with probability at least `confidence`; 0.0 if k = 0.
    Raises ValueError as `clopper_pearson` does.
    """
    _check(k, n, confidence)
    if k == 0:
        return 0.0

    return float(betaincinv(k, n - k + 1, 1.0 - confidence))


def _check(k: int, n: int, confidence: float) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"hits and trials must satisfy 0 <= k <= n; got k={k}, n={n}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1; got {confidence}")
