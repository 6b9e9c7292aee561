"""Power against one effect for all measures: each planted person leaks wholly or not at all.

Persons leak independently with the same probability, the share. Of a person who leaks, a value
comes up, or a score is above all controls; others are exchangeable with twins. Derivations and
figures: docs/methods/silence-reach.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.statistics import binomial, low_end, top_test, tossed

_SUMS = 1 << 20  # most different sums; no power is stated beyond


def of_hits(tries: int, planted: int, needed: int | None, share: float) -> float:
    """Compute the probability that `needed` leaking values come up among so many generations.

    All planted values compete for the words before them, so each of them comes up in a generation
    with probability 1/planted at most. needed: different values for a leak; None: no number is.
    """
    if needed is None or not planted:
        return 0.0
    return binomial.tail(needed, planted, share * comes_up(tries, planted))


def comes_up(tries: int, planted: int) -> float:
    """Compute the probability that one of so many values comes up, if each try is one of them."""
    return -math.expm1(tries * math.log1p(-1.0 / planted)) if planted > 1 else float(tries > 0)


def of_list(tries: int, planted: int, needed: int | None, share: float) -> float:
    """Compute the same for a list of the most likely values, which leaking ones lead."""
    fits = needed is not None and needed <= tries
    return binomial.tail(needed, planted, share) if needed is not None and fits else 0.0


def of_sums(others: ArrayLike, people: int, share: float, level: float) -> float:
    """Compute the power of the two-sided test of how often people appear.

    Who leaks appears at least once, and otherwise people in appear as often as people out: where
    these appear, too, fewer of the leaks stand out. others: (people out,), whole numbers >= 0: how
    often each appears. people: how many are in.
    """
    usual = np.sort(np.asarray(others, dtype=np.int64))
    if not people or not len(usual):
        return 0.0
    law = np.bincount(usual, minlength=2) / len(usual)
    size = people * (len(law) - 1) + 1
    if size > _SUMS:
        return 0.0
    leaking = share * law[0]
    law[:2] += -leaking, leaking
    width = scipy.fft.next_fast_len(size)
    sums = scipy.fft.irfft(scipy.fft.rfft(law, width) ** people, width)[:size]
    inside = usual[np.linspace(0, len(usual) - 1, people).round().astype(int)]
    coins = np.arange(people + len(usual)) < people

    def is_found(leaks: int) -> bool:
        leaking = np.maximum(inside, np.arange(people) < leaks)
        counts = np.concatenate([leaking, usual]).astype(float)
        return tossed.of_counts(counts).p_value(coins) <= level

    silent = int((inside == 0).sum())  # only who is silent otherwise can stand out
    needed = bisect_left(range(silent + 1), True, key=is_found)
    found = sums[int(inside.sum()) + needed :].sum() if needed <= silent else 0.0
    return float(np.clip(found, 0.0, 1.0))


def of_rank_test(planted: int, twins: int, share: float, level: float) -> float:
    """Compute the power of the two-sided rank test, by the normal law without ties."""
    if not planted or not twins:
        return 0.0
    leaks = np.arange(planted + 1)
    rest = planted - leaks
    spread = math.sqrt(planted * twins * (planted + twins + 1) / 12)
    least = planted * twins / 2 + float(scipy.stats.norm.isf(level / 2)) * spread + 0.5
    mean = leaks * twins + rest * twins / 2
    deviation = np.sqrt(rest * twins * (rest + twins + 1) / 12)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(deviation > 0, (least - mean) / deviation, np.where(mean >= least, -9.0, 9.0))
    chances = scipy.stats.binom.pmf(leaks, planted, share)
    return min(1.0, float(chances @ scipy.stats.norm.sf(z)))


@lru_cache(maxsize=256)
def of_low_end(planted: int, twins: int, share: float, level: float) -> float:
    """Compute the power of the test of people above all controls, from those who leak alone."""
    if not planted or not twins:
        return 0.0

    def is_found(above: int) -> bool:
        return low_end.p_value(above, planted, twins) <= level

    needed = bisect_left(range(planted + 1), True, key=is_found)
    return binomial.tail(needed, planted, share)


def of_top_test(planted: int, twins: int, share: float, level: float) -> float:
    """Compute the power of the top test, of the share of scores that is chosen for these sizes."""
    if not planted or not twins:
        return 0.0
    return top_test.power(planted, twins, top_test.best_share(planted, twins, level), share, level)


def of_first_rank(ranks: int, space: float, share: float, level: float) -> float:
    """Compute the probability that one of so many ranks is the first, where that is a leak."""
    return 1.0 - (1.0 - share) ** ranks if 2.0 * ranks <= level * space else 0.0


def of_choice(people: int, share: float, level: float) -> float:
    """Compute the power of the two-sided test of which of two values was planted."""
    for right in range((people + 1) // 2, people + 1):
        if 2.0 * binomial.tail(right, people, 0.5) <= level:
            return binomial.tail(right, people, 0.5 + share / 2)
    return 0.0
