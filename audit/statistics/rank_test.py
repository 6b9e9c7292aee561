"""Permutation test of ranks (Mann and Whitney 1947): do planted secrets score above twins?"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

_CELLS_AT_ONCE = 1 << 20  # permuted ranks held in memory together: 8 MB


def p_value(
    planted: ArrayLike,
    twins: ArrayLike,
    stream: np.random.Generator,
    resamples: int = 9999,
    *,
    two_sided: bool = False,
) -> float:
    """Compute the p-value of "planted scores are no higher than twins'" (higher = leaks more).

    planted: (n,), twins: (m,), any real scores; ties share their mid-rank. Planted and twin secrets
    are exchangeable under the null, so labels are permuted: the level holds for any sizes and any
    ties, where the normal approximation's does not. Never below 1/(resamples + 1). two_sided: the
    p-value of "neither higher nor lower", twice the smaller of both tails of the same permutations,
    at most 1; each tail errs with probability at most half the level, so together they keep it.
    Raises ValueError if either is empty or a score is NaN.
    """
    first, second = np.asarray(planted, dtype=float), np.asarray(twins, dtype=float)
    if not first.size or not second.size:
        raise ValueError("a rank test needs at least one score on each side")
    scores = np.concatenate([first, second])
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    ranks = scipy.stats.rankdata(scores)
    observed = ranks[: first.size].sum()
    as_high = as_low = 1  # the observed labels are one of the orders
    rows = max(1, _CELLS_AT_ONCE // ranks.size)
    for start in range(0, resamples, rows):
        orders = np.tile(ranks, (min(rows, resamples - start), 1))
        sums = stream.permuted(orders, axis=1, out=orders)[:, : first.size].sum(axis=1)
        as_high += int((sums >= observed - 1e-9).sum())
        as_low += int((sums <= observed + 1e-9).sum())
    if two_sided:
        return min(1.0, 2 * min(as_high, as_low) / (1 + resamples))
    return as_high / (1 + resamples)


def smallest(planted: int, twins: int, resamples: int = 9999, *, two_sided: bool = False) -> float:
    """Compute the smallest p-value possible with this many scores."""
    one_sided = max(1 / math.comb(planted + twins, planted), 1 / (resamples + 1))
    return min(1.0, 2 * one_sided) if two_sided else one_sided
