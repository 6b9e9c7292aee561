"""Bounds a rate from trials whose number depends on how they came out (Robbins, Annals of
Mathematical Statistics 41, 1970: the likelihood ratio of a mixture).

With the true rate p, the likelihood of the outcomes averaged over all rates, divided by their
likelihood under p, is expected to stay at 1. By Ville's inequality it ever reaches 1/γ with
probability at most γ. So whenever the trials stop, and for whatever reason that the outcomes so far
give, the rates at which it has not are an interval for p.
"""

from __future__ import annotations

import math

from scipy.special import betaln, xlog1py, xlogy

from audit.statistics.checks import check_confidence, check_hits
from audit.statistics.interval import Interval
from audit.statistics.search import largest, smallest

_WIDTH = 1e-12


def stopped_rate(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Computes an interval for a rate from k hits in n trials, with n chosen by the trials.

    It holds with probability at least `confidence` for any rule that stops the trials by their
    outcomes. With n = 0 the value is None and the interval [0, 1]. Raises ValueError unless
    0 <= k <= n and 0 < confidence < 1.
    """
    check_hits(k, n)
    check_confidence(confidence)
    least = math.log1p(-confidence)

    def refuted(rate: float) -> bool:
        likelihood = xlogy(k, rate) + xlog1py(n - k, -rate)
        return bool(likelihood - betaln(k + 1, n - k + 1) <= least)

    rate = k / n if n else 0.5
    return Interval(
        value=k / n if n else None,
        low=largest(refuted, 0.0, rate, _WIDTH) if k else 0.0,
        high=smallest(refuted, rate, 1.0, _WIDTH) if k < n else 1.0,
        n=n,
        confidence=confidence,
        method="mixture likelihood ratio, two-sided, at any stopping time",
    )
