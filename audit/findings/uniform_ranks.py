"""Tests of "planted secrets rank as uniform values do", of all together and of a single one.

Both are two-sided: secrets ranked last, as behind a block list, depend on the data as much as those
ranked first. The smallest p-value is 1 where some ranks are known within bounds only, which can
hide a leak.
"""

from __future__ import annotations

import numpy as np

from audit.core.evidence import Ranks
from audit.statistics import null_exposure
from audit.statistics.exposure import rank_p_value


def p_value(ranks: Ranks, planted: np.ndarray, size: int) -> tuple[float | None, float]:
    """Computes (p-value, smallest possible p-value) of all ranks together; None without any.

    planted: (s,), bool; size: |R|. Independent ranks are combined. Ranks among shared sampled
    references depend on each other and are tested by their median, valid under any dependence.
    """
    n = int(planted.sum())
    if not n:
        return None, 1.0
    first, last, space = _from_both_ends(ranks, planted, size)
    if np.isnan(ranks.exact[planted]).any():
        sides = (1 if n == 1 else 2) * 2
        medians = [float(np.sort(side)[(n - 1) // 2]) for side in (first, last)]
        p = min(sides * rank_p_value(0.0, space, median) for median in medians)
        least = sides / space
    else:
        p = 2 * min(null_exposure.p_value(space, first), null_exposure.p_value(space, last))
        least = 2 * null_exposure.smallest(space, n)
    return min(1.0, p), _least(ranks, planted, least)


def best_p_value(ranks: Ranks, planted: np.ndarray, size: int) -> tuple[float, float]:
    """Computes (p-value, smallest possible p-value) of the best of n >= 1 ranks, and of the last.

    Each rank is uniform under the null, so one of n is among the first t with probability at most
    n·t/|R|, however they depend on each other.
    """
    first, last, space = _from_both_ends(ranks, planted, size)
    sides = 2 * len(first)
    best = float(min(first.min(), last.min()))
    return min(1.0, sides * best / space), _least(ranks, planted, sides / space)


def _from_both_ends(
    ranks: Ranks, planted: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Counts ranks from the most and from the least likely candidate, ties against the secret.

    Returns both, shape (n,), and the space that they are out of: all of R, or the fewest sampled.
    """
    sampled = np.isnan(ranks.exact[planted])
    out_of = np.where(sampled, ranks.spaces[planted], float(size))
    space = float(out_of.min(initial=size))  # more samples than candidates are no larger space
    first = np.clip(ranks.whole[planted], 1.0, space)
    last = np.clip(out_of + 1.0 - ranks.better[planted], 1.0, space)
    return first, last, space


def _least(ranks: Ranks, planted: np.ndarray, least: float) -> float:
    bounded = bool((ranks.exact[planted] == 0).any())
    return 1.0 if bounded else min(1.0, least)


def untested(ranks: Ranks, planted: np.ndarray) -> str:
    """Explain why no test of these ranks could show a leak; empty where one could."""
    if (ranks.exact[planted] == 0).any():
        return "The ranks are known within bounds only: a smaller leak would not have been seen."
    return ""
