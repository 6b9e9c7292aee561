"""The largest exposure of a tier: one secret that leaks completely moves no median."""

from __future__ import annotations

import math

import numpy as np

from audit.core.evidence import Ranks
from audit.findings import reach, uniform_ranks
from audit.findings.case import Case
from audit.results.joined import LEVEL
from audit.results.measurement import Control, Measurement, Power
from audit.statistics.clopper_pearson import one_sided_lower, one_sided_upper
from audit.statistics.interval import Interval, IntervalKind, no_interval


def largest(
    ranks: Ranks, case: Case, name: str, planted: np.ndarray, twins: np.ndarray, size: int
) -> Measurement:
    """Find the largest exposure, with a test of its own: by the best, and by the worst, rank.

    name: of the tier. planted, twins: (s,), bool. size: |R|.
    """
    n = int(planted.sum())
    interval, beside = _most(ranks, planted, size), Control.of(_most(ranks, twins, size))
    p_value, least = uniform_ranks.best_p_value(ranks, planted, size) if n else (None, 1.0)
    return case.measurement(
        ranks,
        f"largest_{name}",
        interval,
        unit="bits",
        observation=_observation(interval, beside) if n else "",
        # half of all runs without a leak exceed it: beside twins only, never in their place
        chance=_null_median(n, size) if n and beside else None,
        control=beside,
        p_value=p_value,
        least_p=least,
        sides=2,
        untested=uniform_ranks.untested(ranks, planted),
        power=Power(n=n, **reach.of_ranks(n, size, case)),
        space=size,
    )


def _observation(interval: Interval, beside: Control | None) -> str:
    against = "" if beside is None else f" (of {beside.n} twins {_span(beside.ci)})"
    return f"The largest of {interval.n} exposures is {_span(interval.ci)} bits{against}."


def _span(ci: tuple[float, float] | None) -> str:
    low, high = (f"{end:.3g}" for end in ci or (0.0, 0.0))
    return low if low == high else f"between {low} and {high}"


def _null_median(n: int, size: int) -> float:
    """Compute the median of the largest exposure in bits of n secrets never seen."""
    return math.log2(size) - math.log2(max(1.0, size * -math.expm1(math.log(0.5) / n)))


def _most(ranks: Ranks, secrets: np.ndarray, size: int) -> Interval:
    """Compute the largest exposure in bits of these secrets, ties against them.

    Between the certified bounds on their ranks; among sampled references, between Clopper and
    Pearson's for the share of candidates that are more likely, shared out over the secrets.
    """
    n = int(secrets.sum())
    if not n:
        return no_interval(0, 0.95, "needs a rank")
    bits = np.log2(ranks.spaces[secrets])
    low, high = (bits - np.log2(column[secrets]) for column in (ranks.worst, ranks.better))
    value = low.max()
    sampled = np.isnan(ranks.exact[secrets])
    for i in np.flatnonzero(sampled):
        worst, better = (int(column[secrets][i]) for column in (ranks.worst, ranks.better))
        low[i], high[i] = _sampled(worst, better, int(ranks.spaces[secrets][i]), LEVEL / n)
    top = math.log2(size)
    value, least, most = (float(np.clip(b, 0.0, top)) for b in (value, low.max(), high.max()))
    method = f"largest of {n} exposures, of these secrets, within the bounds on their ranks"
    if sampled.any():
        method += ", Clopper-Pearson where references are sampled"
    kind = IntervalKind.OTHER if sampled.any() else IntervalKind.EXACT
    return Interval(value, min(least, value), max(value, most), n, 0.95, method, kind)


def _sampled(worst: int, better: int, space: int, error: float) -> tuple[float, float]:
    """Compute bounds in bits from sampled references, `space` less one, each at half the error."""
    above = one_sided_lower(better - 1, space - 1, 1.0 - error / 2)
    as_likely = one_sided_upper(worst - 1, space - 1, 1.0 - error / 2)
    return -math.log2(as_likely), math.inf if above == 0.0 else -math.log2(above)
