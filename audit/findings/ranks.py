"""Findings from ranks: exposure (Carlini et al. 2019, arXiv 1802.08232), two for each tier.

The median shows what leaks of most secrets, the largest what leaks of a single one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.core.evidence import Ranks
from audit.core.secret import Secret
from audit.findings import bounds, reach, uniform_ranks
from audit.findings.case import Case
from audit.findings.largest_exposure import largest
from audit.findings.rejections import Family
from audit.results.measurement import Control, Exposures, Measurement, Power
from audit.statistics.exposure import exposure_bits, null_exposure_bits
from audit.statistics.interval import Interval, IntervalKind
from audit.statistics.order_statistics import median_interval


def measurements(ranks: Ranks, case: Case) -> list[Measurement]:
    """Make two findings for each number of copies (a tier), and for each space if they differ."""
    copies = np.array([s.copies for s in case.secrets])
    spaces = [0 if s.space is None else s.space.size for s in case.secrets]
    made = []
    for tier in sorted({t for t in zip(copies.tolist(), spaces, strict=True) if t[1]}):
        same = [c == tier[0] and r == tier[1] for c, r in zip(copies, spaces, strict=True)]
        many = len({r for c, r in zip(copies, spaces, strict=True) if c == tier[0]}) > 1
        name = f"exposure_{tier[0]}_{'copy' if tier[0] == 1 else 'copies'}"
        name += f"_of_{tier[1]}" if many else ""
        made += _tier(ranks, case, name, np.array(same, dtype=bool), tier[1])
    return made


def family(ranks: Ranks, secrets: Sequence[Secret]) -> Family:
    """Count two tests a tier: of all its ranks together, which bounds ε, and of the best one.

    Their null is that values are uniform, which coins thrown again could not test.
    """
    tiers = {(s.copies, s.space.size) for s in secrets if s.space is not None}
    return Family(2 * len(tiers), len(tiers))


def _tier(ranks: Ranks, case: Case, name: str, tier: np.ndarray, size: int) -> list[Measurement]:
    read = tier & ~np.isnan(ranks.worst)
    planted, twins = case.planted & read, case.twins & read
    bits = _bits(ranks, size)
    interval = _within(median_interval(_all_or_none(bits[planted])), size)
    beside = _within(median_interval(_all_or_none(bits[twins])), size)
    space = float(ranks.spaces[planted].min(initial=max(size, 1)))
    worst = np.minimum(ranks.worst[planted], space)
    n = len(worst)
    p_value, least = uniform_ranks.p_value(ranks, planted, size)
    median = case.measurement(
        ranks,
        name,
        interval,
        unit="bits",
        observation=_observation(ranks, interval, beside, planted, size),
        chance=_null_median(size),
        control=Control.of(beside),
        p_value=p_value,
        least_p=least,
        sides=2,
        untested=uniform_ranks.untested(ranks, planted),
        epsilon_lower=bounds.from_ranks(space, worst, case),
        power=Power(
            largest_epsilon=bounds.largest_by_rank(space, n, case.delta, case.claim_tests),
            n=n,
            **reach.of_ranks(n, size, case),
        ),
        space=size,
        exposures=Exposures(
            planted=sorted(float(b) for b in bits[planted]),
            twins=sorted(float(b) for b in _all_or_none(bits[twins])),
            null=null_exposure_bits(size),
        )
        if interval.n
        else None,
    )
    return [median, largest(ranks, case, name, planted, twins, size)]


def _bits(ranks: Ranks, size: int) -> np.ndarray:
    """Compute exposure in bits for display: by mid-rank, or extrapolated where a fit exists."""
    bits = np.log2(ranks.spaces) - np.log2(ranks.middle)
    bits = np.where(np.isnan(ranks.fitted), bits, ranks.fitted)
    return np.clip(bits, 0.0, math.log2(max(size, 1)))


def _all_or_none(bits: np.ndarray) -> np.ndarray:
    """Drop all values if any is NaN: the known ranks are the best ones, not a sample of all."""
    return bits[:0] if np.isnan(bits).any() else bits


def _within(interval: Interval, size: int) -> Interval:
    """Return a median of too few values the whole range of exposure as its interval."""
    if interval.value is None or interval.low is not None:
        return interval
    method = f"{interval.method}: the whole range of exposure"
    high, kind = math.log2(max(size, 2)), IntervalKind.WHOLE_RANGE
    return replace(interval, low=0.0, high=high, method=method, kind=kind)


def _bounds(ranks: Ranks, planted: np.ndarray, size: int) -> str:
    if not planted.any():
        return ""
    space = float(ranks.spaces[planted].min())
    low = max(0.0, math.log2(space / ranks.worst[planted].max()))
    high = math.log2(space / ranks.better[planted].min())
    return f"So few queries only say that exposure is between {low:.3g} and {high:.3g} bits."


def _null_median(size: int) -> float:
    """Compute the median exposure in bits of a secret the model has never seen."""
    return exposure_bits(size, (size + 1) / 2)


def _observation(
    ranks: Ranks, interval: Interval, beside: Interval, planted: np.ndarray, size: int
) -> str:
    if interval.value is None:
        return _bounds(ranks, planted, size)

    exact = int((ranks.exact[planted] > 0).sum())
    counted = "all exact" if exact == interval.n else f"{exact} exact, the others within bounds"
    if np.isnan(ranks.exact[planted]).any():
        counted = f"from {ranks.spaces[planted].min() - 1:,.0f} sampled candidates"
    against = "" if beside.value is None else f"twins {beside.value:.3g}, "
    return (
        f"Median exposure {interval.value:.3g} of {math.log2(max(size, 1)):.3g} bits ({against}"
        f"never seen {_null_median(size):.3g}); {interval.n} ranks, {counted}."
    )
