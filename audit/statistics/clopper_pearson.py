"""Exact intervals and limits for a rate: Clopper and Pearson (Biometrika 26, 1934)."""

from __future__ import annotations

from scipy.special import betaincinv

from audit.statistics.checks import check_confidence, check_hits
from audit.statistics.interval import Interval, IntervalKind


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
