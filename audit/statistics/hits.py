"""Exact test of hits: how often chance alone names planted secrets as often as a release did."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np


def p_value(k: int, repeats: Sequence[int], planted: int, chance: float) -> float:
    """Compute P[k or more generations are planted secrets] if the release is independent of them.

    repeats: count of each distinct generation. planted: number of planted secrets.
    chance: 1/|R|, the probability of each value. (Derived.) The secrets are uniform on R and
    independent of each other and, under the null, of the generations. So each secret equals a given
    distinct generation with probability 1/|R|, and then scores its repeats. The sum over secrets is
    convolved exactly, up to k. A single value generated many times is one coincidence.
    Raises ValueError unless k >= 0 and 0 < chance <= 1.
    """
    if k < 0 or not 0 < chance <= 1:
        raise ValueError(f"k must be at least 0 and chance in (0, 1]; got {k}, {chance}")
    if k == 0:
        return 1.0
    repeats = sorted(repeats, reverse=True)[: round(1 / chance)]  # no more can be values of R
    one = np.zeros(k)  # one secret scores r < k; what scores k or more is left out
    for repeat, count in Counter(repeats).items():
        if repeat < k:
            one[repeat] += count * chance
    one[0] = max(0.0, 1.0 - len(repeats) * chance)
    below = _power(one, planted, k)
    return float(min(1.0, max(1.0 - below.sum(), 1e-15)))


def needed(n: int, planted: int, chance: float, level: float) -> int | None:
    """Find the fewest hits of n different generations with a p-value below `level`, or None."""
    most, high = min(n, planted), 1

    def is_enough(k: int) -> bool:
        return p_value(k, [1] * n, planted, chance) < level

    while high < most and not is_enough(high):  # one costs k², so the largest are not tried first
        high = min(2 * high, most)
    counts = range(min(high, most) + 1)
    found = bisect_left(counts, True, lo=high // 2 + 1, key=is_enough) if most else 1
    return found if found <= most else None


def _power(one: np.ndarray, times: int, length: int) -> np.ndarray:
    """Compute the distribution of a sum of `times` independent scores, below `length`."""
    total = np.zeros(length)
    total[0] = 1.0
    base = one
    while times:
        if times & 1:
            total = np.convolve(total, base)[:length]
        base = np.convolve(base, base)[:length]
        times >>= 1
    return total
