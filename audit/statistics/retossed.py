"""Tests of one family of scores, adjusted together by tossing the coins again.

All tests are functions of scores and coins. If nothing depends on the coins, other tosses with as
many heads are as likely as the true one, whatever the scores and however they depend on each other.
The smallest p-value of a toss is then compared with the smallest p-values of many others (Westfall
and Young 1993, step-down minimum of p), so tests with equal results cost the family nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audit.statistics.tossed import Coins, Tossed

_CELLS_AT_ONCE = 1 << 22  # coins held in memory together: 4 MB
_LEAST = 9_999  # tosses
_NEAR = 1 + 1e-9  # p-values as near are equal but for rounding


def tosses_for(tests: int, cells: int = 1) -> int:
    """Compute how many tosses a family needs: its least adjusted p is about tests/tosses."""
    return max(_LEAST, 100 * tests * cells)


def adjusted_p_values(
    tests: Sequence[Tossed], coins: Coins, stream: np.random.Generator, tosses: int
) -> NDArray[np.float64]:
    """Adjust the p-values of tests that share their coins: (tests,), each at least 1/(tosses + 1).

    coins: (users,), True = heads. Rejecting those at or below γ errs anywhere with probability at
    most γ if nothing depends on the coins (given the number of heads). No adjusted p-value is below
    its unadjusted one. Raises ValueError for no users.
    """
    if not coins.size:
        raise ValueError("coins of at least one user are needed")
    if not tests:
        return np.empty(0)
    raw = np.array([test.p_value(coins) for test in tests])
    order = np.argsort(raw, kind="stable")
    as_small = np.ones(len(tests))  # the true toss is one of them
    rows = max(1, _CELLS_AT_ONCE // coins.size)
    for start in range(0, tosses, rows):
        again = np.tile(coins, (min(rows, tosses - start), 1))
        stream.permuted(again, axis=1, out=again)
        again = np.asfortranarray(again)  # each test chooses its users
        p = np.stack([tests[place].p_values(again) for place in order])
        least = np.minimum.accumulate(p[::-1], axis=0)[::-1]  # of this test and those behind it
        as_small += (least <= raw[order][:, None] * _NEAR).sum(axis=1)
    adjusted = np.empty(len(tests))
    adjusted[order] = np.maximum.accumulate(as_small / (tosses + 1))
    return np.asarray(np.maximum(adjusted, raw))
