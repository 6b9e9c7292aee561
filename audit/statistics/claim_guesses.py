"""The numbers of guesses and of coins with which a claim is tested on its trade-off curve.

All of it follows from the claim, the number of coins and the level, and is fixed before any coin is
seen. Derivation: docs/methods/claims-on-a-trade-off-curve.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from audit.statistics.binomial import tail
from audit.statistics.claim_curve import Curve, is_refuted

_FRACTIONS = (3, 4, 6, 8, 12)  # a k-th of the coins is guessed "in", another k-th "out"
_TIE = 1e-9  # of power
_MOST = 2**17  # coins


@lru_cache(maxsize=1024)
def guess_count(curve: Curve, coins: int, level: float) -> tuple[int, int | None]:
    """Choose (s, v*): s guesses on each side, and how many right of r = 2s refute the claim.

    v* is None where no number does. Of a third to a twelfth of the coins, s has the largest power
    against a mechanism that leaks a little more than twice as much as the claimed one: only power
    rests on this choice. Raises ValueError for fewer than two coins.
    """
    if coins < 2:
        raise ValueError(f"guesses on both sides need at least 2 coins; got {coins}")
    chosen: tuple[int, int | None] = (_sides(coins)[0], None)
    largest = -1.0
    for s in _sides(coins):
        least = least_rejected(curve, coins, 2 * s, level)
        if least is None:
            continue
        power = tail(least, 2 * s, 1.0 - _error(curve.advantage, s / coins))
        if power > largest + _TIE:
            largest, chosen = power, (s, least)
    return chosen


@lru_cache(maxsize=4096)
def least_rejected(curve: Curve, coins: int, guesses: int, level: float) -> int | None:
    """Find v*, the fewest right guesses that refute the claim at this level; None if none do."""
    return _least(lambda v: is_refuted(curve, coins, guesses, v, level), 0, guesses)


def coins_needed(curve: Curve, level: float) -> int | None:
    """Find how many coins it takes to refute an engine without noise, whose guesses are all right.

    With as many coins or more, `guess_count` finds a number of guesses that can refute the claim.
    None where 131,072 are too few.
    """

    def refutable(coins: int) -> bool:
        return any(is_refuted(curve, coins, 2 * s, 2 * s, level) for s in _sides(coins))

    def from_here(coins: int) -> bool:  # the coins that no side gets, up to two of three, weaken it
        return all(refutable(coins + spare) for spare in range(_FRACTIONS[0]))

    low, high = 1, 2
    while high < _MOST and not from_here(high):
        low, high = high, 2 * high
    return _least(from_here, low, high)


def _sides(coins: int) -> list[int]:
    return [max(1, coins // fraction) for fraction in _FRACTIONS]


def _least(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """Find the least integer above low, up to high, for which the condition holds.

    holds: false up to some point, true above it; not evaluated at low. None if false at high.
    """
    if not holds(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _error(advantage: float, share: float) -> float:
    """Compute how often a guess is wrong where scores are N(0, 1), and N(μ, 1) of the present.

    μ is a little more than twice that of the Gaussian with the claimed advantage. share: s/m, of
    coins that are guessed "in" because of the highest scores.
    """
    mu = 4.0 * float(ndtri((1.0 + min(advantage, 1.0 - _TIE)) / 2.0)) + 0.2

    def surplus(threshold: float) -> float:
        return float(ndtr(-threshold) + ndtr(mu - threshold)) / 2.0 - share

    threshold = brentq(surplus, -40.0, mu + 40.0)
    return float(ndtr(-threshold)) / 2.0 / share
