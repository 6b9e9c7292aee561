"""Exact test of the top: are more planted scores among the highest than by chance?

The rank test compares planted scores with the others on the whole. It misses a model that
leaks a few people wholly and nothing of the others; the top test finds just that.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

SHARES = (Fraction(1, 8), Fraction(1, 5), Fraction(1, 4))  # of all scores, one chosen beforehand
_NOISE = 1e-9  # of a sum of counts and shares of them


def places(planted: int, twins: int, share: Fraction) -> int:
    """Compute how many scores are the top: `share` of all, rounded down, at least one."""
    return max(1, int((planted + twins) * share))


def p_value(planted: ArrayLike, twins: ArrayLike, share: Fraction) -> float:
    """Compute the p-value of "planted scores are no more often at the top than twins'".

    planted: (n,), twins: (m,), any real scores, higher = leaks more. The statistic is the number of
    planted scores among the `places` highest; scores tied at the cut share the places that are
    left. Under the null the labels are exchangeable, so its law is hypergeometric: exact for any
    sizes and ties, and 1 where all scores are equal. Raises ValueError if a side is empty or a
    score is NaN.
    """
    first, second = np.asarray(planted, dtype=float), np.asarray(twins, dtype=float)
    if not first.size or not second.size:
        raise ValueError("a top test needs at least one score on each side")
    scores = np.concatenate([first, second])
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    weights = top_weights(scores, places(first.size, second.size, share))
    shared = (weights > 0) & (weights < 1)
    above, tied = int((weights == 1).sum()), int(shared.sum())
    part = float(weights[shared].max(initial=0.0))
    observed = float(weights[: first.size].sum())
    return _tail(observed, first.size, scores.size, above, tied, part)


def top_weights(scores: NDArray[np.float64], top: int) -> NDArray[np.float64]:
    """Compute how far each score is among the `top` highest: 1, 0, or a tie's share. (n,)."""
    cut = np.partition(scores, -top)[-top]
    above, tied = scores > cut, scores == cut
    return np.where(above, 1.0, np.where(tied, (top - above.sum()) / tied.sum(), 0.0))


def _tail(observed: float, planted: int, every: int, above: int, tied: int, part: float) -> float:
    """Compute P[A + part·T >= observed]: A planted of those above the cut, T of those at it."""
    a = np.arange(min(planted, above) + 1)
    law_above = scipy.stats.hypergeom.pmf(a, every, planted, above)
    if not tied:
        return min(1.0, float(law_above[a >= observed - _NOISE].sum()))
    p = 0.0
    for count, chance in zip(a.tolist(), law_above.tolist(), strict=True):
        if chance > 0:
            needed = int(np.ceil((observed - count) / part - _NOISE))
            rest = scipy.stats.hypergeom(every - above, planted - count, tied)
            p += chance * float(rest.sf(needed - 1))
    return min(1.0, p)


def smallest(planted: int, twins: int, share: Fraction) -> float:
    """Compute the smallest p-value possible with this many scores."""
    top = places(planted, twins, share)
    return float(scipy.stats.hypergeom.pmf(min(top, planted), planted + twins, planted, top))


@lru_cache(maxsize=256)
def power(planted: int, twins: int, share: Fraction, leaking: float, level: float) -> float:
    """Compute the probability of p <= level where some of the planted are given away wholly.

    leaking: probability, independent for each planted score, that it is above all twins'; the
    others are exchangeable with twins'. Exact, without ties.
    """
    top, every = places(planted, twins, share), planted + twins
    counts = np.arange(min(top, planted) + 1)
    tail = scipy.stats.hypergeom.sf(counts - 1, every, planted, top)
    if not (tail <= level).any():
        return 0.0
    critical = int(counts[tail <= level].min())
    leaks = np.arange(planted + 1)
    chances = scipy.stats.binom.pmf(leaks, planted, leaking)
    found, few = np.ones(planted + 1), leaks[:critical]
    found[:critical] = scipy.stats.hypergeom.sf(
        critical - few - 1, every - few, planted - few, top - few
    )
    return min(1.0, float(chances @ found))


def best_share(planted: int, twins: int, level: float, leaking: float = 0.25) -> Fraction:
    """Choose the share with the most power, by the sizes alone, before any score is seen.

    leaking: as in `power`. Of equally strong ones, the smallest share is chosen.
    """
    return max(SHARES, key=lambda share: power(planted, twins, share, leaking, level))
