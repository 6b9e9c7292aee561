"""Permutation tests of two sides: are they more unlike than any other division of these units?

A unit is a row of shares, such as those of a user's words. Given the units, the labels of both
sides are permuted and everything is computed anew, so the level holds whatever a row contains and
however the texts behind it depend on each other.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

_CELLS_AT_ONCE = 1 << 22  # differences held in memory together: 32 MB
_ROUNDING = 1e-9  # statistics as near as this are equal: sums in another order

Table = NDArray[np.float64]


class Norm(StrEnum):
    """The size of a difference between two rows of mean shares, from 0 to 1.

    LARGEST: in one column, Kolmogorov and Smirnov's where columns are cumulative. HALF_SUM: over
    all columns, the total variation where they are shares of one whole.
    """

    LARGEST = "largest"
    HALF_SUM = "half sum"


def distances(
    rows: Table, n: int, norm: Norm, permutations: int, stream: np.random.Generator
) -> Table:
    """Compute the distances between the mean rows of both sides: (1 + permutations,).

    rows: (units, columns), the first n of them inside. The first distance is that of the true
    labels, the others are of permuted ones. Raises ValueError for a side without units.
    """
    if not 0 < n < len(rows):
        raise ValueError(f"both sides need units; got {n} inside of {len(rows)}")
    weights = np.repeat([1.0 / n, -1.0 / (len(rows) - n)], [n, len(rows) - n])
    found = [_sizes(weights[None] @ rows, norm)]
    at_once = max(1, _CELLS_AT_ONCE // max(rows.shape))
    for start in range(0, permutations, at_once):
        again = np.tile(weights, (min(at_once, permutations - start), 1))
        found.append(_sizes(stream.permuted(again, axis=1, out=again) @ rows, norm))
    return np.concatenate(found)


def _sizes(differences: Table, norm: Norm) -> Table:
    """Compute the size of each row of differences, 0 where there are no columns."""
    size = np.abs(differences)
    if norm == Norm.HALF_SUM:
        return np.asarray(size.sum(axis=1) / 2.0)
    return np.asarray(size.max(axis=1, initial=0.0))


def p_value(statistics: Table) -> float:
    """Compute the share of statistics that are at least as large as the first, itself included.

    statistics: (1 + permutations,), the first of the true labels. If the units are exchangeable,
    p <= x with probability at most x, for any number of permutations.
    """
    return float((statistics >= statistics[0] - _ROUNDING).mean())
