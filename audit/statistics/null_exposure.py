"""Test of ranks of planted secrets against uniform ranks, by Fisher's combination."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from audit.statistics.fisher import combined_p_value


def p_value(space: float, ranks: ArrayLike) -> float:
    """Combine the p-values rank/space; small = the secrets are better known than chance.

    space: number of candidates of each secret; ranks: (n,), 1 = the most likely, ties against the
    secret (or certified upper ends), independent of each other. Conservative: under the null
    rank/space is stochastically at least a uniform U on (0, 1), as ceil(space U)/space >= U.
    Raises ValueError for no ranks or unless 1 <= rank <= space.
    """
    row = np.asarray(ranks, dtype=np.float64)
    if row.ndim != 1 or len(row) == 0:
        raise ValueError(f"at least one rank is needed, one row; got shape {row.shape}")
    if not ((row >= 1.0) & (row <= space)).all():
        raise ValueError(f"ranks must lie between 1 and the space of {space}")
    return combined_p_value(row / space)


def smallest(space: float, n: int) -> float:
    """Compute the smallest p-value possible with n ranks: that of all ranks 1."""
    return p_value(space, np.ones(n))
