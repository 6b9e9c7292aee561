"""Bound a rate from trials whose number depends on how they came out (Robbins, Annals of
Mathematical Statistics 41, 1970: the likelihood ratio of a mixture).

With the true rate p, divide the likelihood of the outcomes averaged over all rates by their
likelihood under p. This ratio is a martingale that begins at 1, so by Ville's inequality it ever
reaches 1/γ with probability at most γ. So whenever the trials stop, and for whatever reason, the
rates at which it has not are an interval for p. Any average will do; that of Beta(¼, ¼) is tight
where hits are few, or misses.

The same holds for several series of trials, one after the other, each with a rate of its own: the
numerator may be any distribution of all outcomes. docs/methods/extraction.md derives the interval
for the mean of their rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from audit.statistics.checks import check_confidence, check_hits
from audit.statistics.interval import Interval, IntervalKind

_PRIOR = 0.25
_STEEPEST = 64.0  # log₂ of the steepest slope: rates then lie within 2⁻⁶⁴ n of 0 or 1
_HALVINGS = 48  # of the search for the slope
_MOST_CUT = 12  # series whose cut trial is completed in both ways


@dataclass(frozen=True)
class Series:
    """k hits in n trials of one rate. cut: whether it stopped within a further trial.

    Raises ValueError unless 0 <= k <= n.
    """

    k: int
    n: int
    cut: bool = False

    def __post_init__(self) -> None:
        check_hits(self.k, self.n)


def stopped_rate(series: Sequence[Series], confidence: float = 0.95) -> Interval:
    """Compute an interval for the mean of the rates of series of trials that stop by outcomes.

    It holds with probability at least `confidence` for any rule that stops a series by what came
    out so far. The value is the mean of k/n over series with trials; None, with the interval
    [0, 1], where there are none. Raises ValueError for no series, and unless 0 < confidence < 1.
    """
    check_confidence(confidence)
    if not series:
        raise ValueError("series: at least one is needed")
    rates = [one.k / one.n for one in series if one.n]
    hits, trials = _completed(series)
    return Interval(
        value=math.fsum(rates) / len(rates) if rates else None,
        low=1.0 - _upper(trials - hits, trials, confidence),
        high=_upper(hits, trials, confidence),
        n=sum(one.n for one in series),
        confidence=confidence,
        method="mixture likelihood ratio, two-sided, at any stopping time",
        kind=IntervalKind.STOPPED_RATE,
    )


def _completed(series: Sequence[Series]) -> tuple[np.ndarray, np.ndarray]:
    """Return hits and trials of each series, (ways, series), in all ways in which cut trials end.

    One series alone needs no completion: its interval holds after all whole trials at once. After
    the twelfth that was cut, series count as having no trials, so that ways remain few.
    """
    if len(series) == 1:
        return np.array([[series[0].k]], dtype=float), np.array([[series[0].n]], dtype=float)
    kept, cut = [], 0
    for one in series:
        kept.append(one if cut < _MOST_CUT else Series(0, 0))
        cut += one.cut
    ways = product(*([0, 1] if one.cut else [0] for one in kept))
    ends = np.array(list(ways), dtype=float)
    hits, trials = np.array([(one.k, one.n) for one in kept], dtype=float).T
    begun = trials + [one.cut for one in kept]
    return hits + ends, np.broadcast_to(begun, ends.shape)


def _upper(hits: np.ndarray, trials: np.ndarray, confidence: float) -> float:
    """Compute the largest mean rate that is not refuted in some way; the shapes are (ways, m).

    The numerator is half that of one rate for all series, half that of a rate for each: the former
    is tight where rates are alike, the latter where they are not.
    """
    one_rate = _mixture(hits.sum(axis=1), trials.sum(axis=1))
    of_each = _mixture(hits, trials).sum(axis=1)
    least = np.logaddexp(one_rate, of_each) - math.log(2.0) + math.log1p(-confidence)
    low, high = np.full(len(hits), -_STEEPEST), np.full(len(hits), _STEEPEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rates = _likeliest(hits, trials, middle)
        likelihood = (xlogy(hits, rates) + xlog1py(trials - hits, -rates)).sum(axis=1)
        allowed = likelihood > least
        low, high = np.where(allowed, middle, low), np.where(allowed, high, middle)
    return float(_likeliest(hits, trials, high).mean(axis=1).max())


def _mixture(hits: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """Compute the log-likelihood of outcomes, averaged over rates of Beta(¼, ¼), nats."""
    mixed: np.ndarray = betaln(hits + _PRIOR, trials - hits + _PRIOR) - betaln(_PRIOR, _PRIOR)
    return mixed


def _likeliest(hits: np.ndarray, trials: np.ndarray, steepness: np.ndarray) -> np.ndarray:
    """Find the likeliest rates, (ways, m), of some mean at or above that of the rates seen.

    There the log-likelihood of each series falls by s = 2^steepness per unit of its rate p:
    (n − k)/(1 − p) − k/p = s, so s p² − (s − n) p − k = 0. p is 0 where this root is not above it,
    and 1 without trials.
    """
    s = np.exp2(steepness)[:, None]
    half = (s - trials) / 2
    root = np.sqrt(half * half + s * hits)
    below = np.where((half > 0) | (hits == 0), 1.0, root - half)
    return np.where(half > 0, (half + root) / s, hits / below)  # both without cancellation
