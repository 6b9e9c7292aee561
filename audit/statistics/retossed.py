"""Tests of one family of scores, adjusted together by tossing the coins again.

All tests are functions of scores and coins. If nothing depends on the coins, other tosses with as
many heads are as likely as the true one, whatever the scores and however they depend on each other.
The smallest p-value of a toss is then compared with the smallest p-values of many others (Westfall
and Young 1993, step-down minimum of p), so tests with equal results cost the family nothing.

Several looks at the same coins share the tosses: which of them has crossed the limit of a look is
counted once, so looks that agree cost each other little (docs/methods/looks.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.statistics.tossed import Coins, Tossed

_CELLS_AT_ONCE = 1 << 22  # coins held in memory together: 4 MB
_LEAST = 9_999  # tosses
_NEAR = 1 + 1e-9  # p-values as near are equal but for rounding


def tosses_for(tests: int, cells: int = 1) -> int:
    """Compute how many tosses a family needs: its least adjusted p is about tests/tosses."""
    return max(_LEAST, 100 * tests * cells)


@dataclass(frozen=True)
class Crossed:
    """Tosses that have crossed the limit of a look: (1 + tosses,), bool, the true one first.

    looks: how many there have been.
    """

    tosses: Coins
    looks: int


class Again(NamedTuple):
    """Tests under the true toss and many others.

    p_values: (tests,), adjusted for each other, each at least 1/(tosses + 1). so_far: (tests,), the
    share of tosses with as small a p-value, or that have crossed the limit of an earlier look.
    least: (1 + tosses,), the smallest p-value of each toss, of the true one first.
    """

    p_values: NDArray[np.float64]
    so_far: NDArray[np.float64]
    least: NDArray[np.float64]

    def crossed(self, share: float, before: Crossed | None = None) -> Crossed:
        """Add the tosses that cross the limit of this look to those that crossed an earlier one.

        share: of all tosses, that may cross a look. The limit is the largest p-value at which no
        more have crossed by now than all looks so far may have.
        """
        done = np.zeros(len(self.least), dtype=bool) if before is None else before.tosses
        looks = 1 if before is None else 1 + before.looks
        left = np.sort(self.least[~done])
        count = done.sum() + np.searchsorted(left, self.least * _NEAR, side="right")
        return Crossed(done | (count <= looks * share * len(self.least)), looks)


def adjusted_p_values(
    tests: Sequence[Tossed], coins: Coins, stream: np.random.Generator, tosses: int
) -> NDArray[np.float64]:
    """Adjust the p-values of tests that share their coins, as `toss_again` does."""
    return toss_again(tests, coins, stream, tosses).p_values


def toss_again(
    tests: Sequence[Tossed],
    coins: Coins,
    stream: np.random.Generator,
    tosses: int,
    before: Crossed | None = None,
) -> Again:
    """Compute the p-values of tests that share their coins, for many tosses of them.

    coins: (users,), True = heads. before: what earlier looks at the same coins have crossed.
    Rejecting p-values at or below γ errs anywhere with probability at most γ if nothing depends on
    the coins (given the number of heads). No result is below its unadjusted p-value. Raises
    ValueError for no users, or another number of tosses than `before` has.
    """
    done = np.zeros(1 + tosses, dtype=bool) if before is None else before.tosses
    if len(done) != 1 + tosses:
        raise ValueError(f"{1 + tosses} tosses are needed; got {len(done)}")
    if not tests:
        return Again(np.empty(0), np.empty(0), np.ones(1 + tosses))
    if not coins.size:
        raise ValueError("coins of at least one user are needed")
    raw = np.array([test.p_value(coins) for test in tests])
    order = np.argsort(raw, kind="stable")
    limits, every = raw[order][:, None] * _NEAR, np.full(1 + tosses, raw.min())
    as_small, so_far = np.ones(len(tests)), np.ones(len(tests))  # the true toss is one of them
    rows = max(1, _CELLS_AT_ONCE // coins.size)
    for start in range(0, tosses, rows):
        again = np.tile(coins, (min(rows, tosses - start), 1))
        stream.permuted(again, axis=1, out=again)
        again = np.asfortranarray(again)  # each test chooses its users
        p = np.stack([tests[place].p_values(again) for place in order])
        least = np.minimum.accumulate(p[::-1], axis=0)[::-1]  # of this test and those behind it
        here = slice(1 + start, 1 + start + len(again))
        as_small += (least <= limits).sum(axis=1)
        so_far += ((least <= limits) | done[here]).sum(axis=1)
        every[here] = least[0]
    adjusted = np.empty((2, len(tests)))
    adjusted[:, order] = np.maximum.accumulate([as_small, so_far], axis=1) / (tosses + 1)
    adjusted = np.maximum(adjusted, raw)
    return Again(adjusted[0], adjusted[1], every)
