"""Bounds a rate from trials whose number depends on how they came out (Robbins, Annals of
Mathematical Statistics 41, 1970: the likelihood ratio of a mixture).

With the true rate p, the likelihood of the outcomes averaged over all rates, divided by their
likelihood under p, is expected to stay at 1. Any average will do; that of Beta(¼, ¼) is tight where
hits are few, or misses. By Ville's inequality it ever reaches 1/γ with
probability at most γ. So whenever the trials stop, and for whatever reason that the outcomes so far
give, the rates at which it has not are an interval for p.

The same holds for several series of trials, one after the other, each with a rate of its own: the
numerator is one distribution of all outcomes, whatever the rates are. A mean of the rates is left
out where all rates of that mean are. docs/methods/extraction.md derives the likeliest of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaln, xlog1py, xlogy

from audit.statistics.checks import check_confidence, check_hits
from audit.statistics.interval import Interval
from audit.statistics.search import largest

_PRIOR = 0.25
_STEEPEST = 64.0  # log₂ of the steepest slope: rates then lie within 2⁻⁶⁴ n of 0 or 1
_WIDTH = 1e-10


@dataclass(frozen=True)
class Series:
    """k hits in n trials of one rate. cut: further trials that began, and whose outcome is unknown.

    Raises ValueError unless 0 <= k <= n and 0 <= cut.
    """

    k: int
    n: int
    cut: int = 0

    def __post_init__(self) -> None:
        check_hits(self.k, self.n)
        if self.cut < 0:
            raise ValueError(f"cut is {self.cut}; it must be at least 0")


def stopped_rate(series: Sequence[Series], confidence: float = 0.95) -> Interval:
    """Computes an interval for the mean of the rates of series of trials that stop by outcomes.

    It holds with probability at least `confidence` for any rule that stops a series by what came
    out so far. Trials that were cut count against either end. The value is the mean of k/n over
    series with trials; None, with the interval [0, 1], where there are none. Raises ValueError for
    no series, and unless 0 < confidence < 1.
    """
    check_confidence(confidence)
    if not series:
        raise ValueError("series: at least one is needed")
    rates = [one.k / one.n for one in series if one.n]
    misses = [Series(one.n - one.k, one.n, one.cut) for one in series]
    return Interval(
        value=math.fsum(rates) / len(rates) if rates else None,
        low=1.0 - _upper(misses, confidence),
        high=_upper(series, confidence),
        n=sum(one.n for one in series),
        confidence=confidence,
        method="mixture likelihood ratio, two-sided, at any stopping time",
    )


def _upper(series: Sequence[Series], confidence: float) -> float:
    """Computes the largest mean rate that is not refuted, each trial that was cut being a hit."""
    counts = [(one.k + one.cut, one.n + one.cut) for one in series if one.n + one.cut]
    hits, trials = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    mixture = betaln(hits + _PRIOR, trials - hits + _PRIOR) - betaln(_PRIOR, _PRIOR)
    least = mixture + math.log1p(-confidence)

    def allowed(steepness: float) -> bool:
        return bool(_likelihood(counts, _likeliest(counts, steepness)) > least)

    steepness = largest(allowed, -_STEEPEST, _STEEPEST, _WIDTH)
    high = math.fsum(_likeliest(counts, steepness)) + len(series) - len(counts)
    return min(1.0, high / len(series)) if hits < trials else 1.0


def _likelihood(counts: Sequence[tuple[int, int]], rates: Sequence[float]) -> float:
    """Computes the log-likelihood of outcomes, nats."""
    return math.fsum(xlogy(k, p) + xlog1py(n - k, -p)
                     for (k, n), p in zip(counts, rates, strict=True))  # fmt: skip


def _likeliest(counts: Sequence[tuple[int, int]], steepness: float) -> list[float]:
    """Finds the likeliest rates of some mean at or above that of k/n.

    There the log-likelihood of each series falls by 2^steepness per unit of its rate:
    (n − k)/(1 − p) − k/p = s. Of the two roots this is the one in [0, 1]; larger means have larger
    s.
    """
    s = 2.0**steepness
    rates = []
    for k, n in counts:
        half = (s - n) / 2
        root = math.sqrt(half * half + s * k)
        # s p² − (s − n) p − k = 0, without cancellation
        rates.append((half + root) / s if half > 0 else k / (root - half) if k else 0.0)
    return rates
