"""Permutation test of ranks (Mann and Whitney 1947): do planted secrets stand above twins?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def p_value(
    planted: ArrayLike, twins: ArrayLike, stream: np.random.Generator, resamples: int = 9999
) -> float:
    """One-sided p-value of "planted scores are no higher than twins'" (higher = leaks more).

    planted: (n,), twins: (m,), any real scores; ties share their mid-rank. Planted and twin secrets
    are exchangeable under the null, so labels are permuted: the level holds for any sizes and any
    ties, where the normal approximation's does not. Never below 1/(resamples + 1).
    Raises ValueError if either is empty or a score is NaN.
    """
    from scipy.stats import rankdata

    first, second = np.asarray(planted, dtype=float), np.asarray(twins, dtype=float)
    if not first.size or not second.size:
        raise ValueError("a rank test needs at least one score on each side")
    scores = np.concatenate([first, second])
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    ranks = rankdata(scores)
    observed = ranks[: first.size].sum()
    as_high = 0
    for _ in range(resamples):
        as_high += bool(stream.permutation(ranks)[: first.size].sum() >= observed - 1e-9)
    return (1 + as_high) / (1 + resamples)


def smallest(planted: int, twins: int, resamples: int = 9999) -> float:
    """The smallest p-value that so many scores can give at all."""
    return max(1 / math.comb(planted + twins, planted), 1 / (resamples + 1))
