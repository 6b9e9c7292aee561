"""Bound a rate where some trials did not show how they came out."""

from __future__ import annotations

from dataclasses import replace

from audit.statistics.checks import check_hits
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval, IntervalKind


def withheld_rate(k: int, n: int, withheld: int, confidence: float = 0.95) -> Interval:
    """Compute the interval for a rate from k hits in n trials, of which others are withheld.

    It runs from the lower limit of k hits to the upper limit of k + withheld, since each of those
    trials may have been a hit. If all outcomes were known, their interval would lie within it, so
    it covers at least as often. Raises ValueError unless 0 <= k <= k + withheld <= n and
    0 < confidence < 1.
    """
    check_hits(k, n)
    if withheld < 0:
        raise ValueError(f"withheld must be at least 0; got {withheld}")
    fewest, most = (clopper_pearson(hits, n, confidence) for hits in (k, k + withheld))
    if not withheld:
        return fewest
    return replace(
        fewest,
        high=most.high,
        method=f"Clopper-Pearson, two-sided, from {k} to {k + withheld} hits: answers are withheld",
        kind=IntervalKind.WITHHELD_RATE,
    )
