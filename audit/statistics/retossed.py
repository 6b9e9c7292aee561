"""Tests of one family of scores, adjusted together by tossing the coins again.

All tests are functions of scores and coins. If nothing depends on the coins, other tosses with as
many heads are as likely as the true one, whatever the scores and however they depend on each other.
The smallest p-value of a toss is then compared with the smallest p-values of many others (Westfall
and Young 1993, step-down minimum of p), so tests with equal results cost the family nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from audit.statistics.top_test import places, top_weights

_CELLS_AT_ONCE = 1 << 22  # coins held in memory together: 4 MB
_LEAST = 9_999  # tosses
_NEAR = 1e-12  # of p-values: equal but for rounding

Coins = NDArray[np.bool_]


class Tossed(ABC):
    """A test of the coins whose p-value has a closed form, the same for every toss."""

    @abstractmethod
    def p_values(self, coins: Coins) -> NDArray[np.float64]:
        """Compute the p-value of each toss: coins (tosses, users), True = heads; (tosses,)."""


@dataclass(frozen=True)
class Ranked(Tossed):
    """The rank test of Mann and Whitney, by the normal law with ties and half a rank of continuity.

    scores: (users,), higher = leaks more; NaN: the user was not measured. sides: 2 if lower scores
    of heads would be a leak, too. The law need not be exact: each toss is treated alike.
    """

    scores: NDArray[np.float64]
    sides: int = 1

    @cached_property
    def _measured(self) -> Coins:
        return ~np.isnan(self.scores)

    @cached_property
    def _ranks(self) -> NDArray[np.float64]:
        return np.asarray(scipy.stats.rankdata(self.scores[self._measured]), dtype=np.float64)

    def p_values(self, coins: Coins) -> NDArray[np.float64]:
        ranks, chosen = self._ranks, coins[:, self._measured]
        every, heads = ranks.size, chosen.sum(axis=1)
        tails = every - heads
        if every < 2:
            return np.ones(len(coins))
        above = chosen @ ranks - heads * (every + 1) / 2
        spread = float(np.var(ranks)) * every / (every - 1) / every  # of one mean rank, times
        deviation = np.sqrt(np.maximum(0.0, heads * tails * spread))
        size = np.abs(above) if self.sides == 2 else above
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(deviation > 0, (size - 0.5) / deviation, -np.inf)
        return np.asarray(np.minimum(1.0, self.sides * scipy.stats.norm.sf(z)))


@dataclass(frozen=True)
class Top(Tossed):
    """The top test: heads among the highest scores, by the hypergeometric law.

    scores: as in `Ranked`. share: of the measured scores that are the top, chosen beforehand. Ties
    at the cut are counted in part, and the part is rounded down in every toss alike.
    """

    scores: NDArray[np.float64]
    share: Fraction

    @cached_property
    def _measured(self) -> Coins:
        return ~np.isnan(self.scores)

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        own = self.scores[self._measured]
        return top_weights(own, places(own.size, 0, self.share))

    def p_values(self, coins: Coins) -> NDArray[np.float64]:
        if not self._measured.any():
            return np.ones(len(coins))
        chosen = coins[:, self._measured]
        every, top = chosen.shape[1], round(float(self._weights.sum()))
        counts = np.floor(chosen @ self._weights + 1e-9).astype(int)
        p = scipy.stats.hypergeom.sf(counts - 1, every, chosen.sum(axis=1), top)
        return np.minimum(1.0, np.asarray(p, dtype=np.float64))


def tosses_for(tests: int, cells: int = 1) -> int:
    """Compute how many tosses a family needs: its least adjusted p is about tests/tosses."""
    return max(_LEAST, 100 * tests * cells)


def adjusted_p_values(
    tests: Sequence[Tossed], coins: Coins, stream: np.random.Generator, tosses: int
) -> NDArray[np.float64]:
    """Adjust the p-values of tests that share their coins: (tests,), each at least 1/(tosses + 1).

    coins: (users,), True = heads. Rejecting those at or below γ errs anywhere with probability at
    most γ if nothing depends on the coins (given the number of heads). Raises ValueError for no
    users.
    """
    if not coins.size:
        raise ValueError("coins of at least one user are needed")
    if not tests:
        return np.empty(0)
    raw = np.array([float(test.p_values(coins[None])[0]) for test in tests])
    order = np.argsort(raw, kind="stable")
    as_small = np.ones(len(tests))  # the true toss is one of them
    rows = max(1, _CELLS_AT_ONCE // coins.size)
    for start in range(0, tosses, rows):
        again = np.tile(coins, (min(rows, tosses - start), 1))
        stream.permuted(again, axis=1, out=again)
        p = np.stack([tests[place].p_values(again) for place in order])
        least = np.minimum.accumulate(p[::-1], axis=0)[::-1]  # of this test and those behind it
        as_small += (least <= raw[order][:, None] + _NEAR).sum(axis=1)
    adjusted = np.empty(len(tests))
    adjusted[order] = np.maximum.accumulate(as_small / (tosses + 1))
    return adjusted
