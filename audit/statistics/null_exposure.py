"""Do ranks of planted secrets lie lower than uniform ranks would (Fisher's combination)?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc


def p_value(space: float, ranks: ArrayLike) -> float:
    """P[Gamma(n, 1) >= sum of -ln(rank/space)]: small = the secrets are better known than chance.

    space: number of candidates of each secret; ranks: (n,), 1 = the most likely, ties against the
    secret (or certified upper ends), independent of each other. Conservative: under the null
    rank/space is stochastically at least a uniform U on (0, 1), as ceil(space U)/space >= U, so
    the statistic is at most a sum of n independent -ln U, which is Gamma(n, 1).
    Raises ValueError for no ranks or unless 1 <= rank <= space.
    """
    row = np.asarray(ranks, dtype=np.float64)
    if row.ndim != 1 or len(row) == 0:
        raise ValueError(f"at least one rank is needed, one row; got shape {row.shape}")
    if not ((row >= 1.0) & (row <= space)).all():
        raise ValueError(f"ranks must lie between 1 and the space of {space}")

    statistic = float(np.sum(np.log(space) - np.log(row)))
    return float(gammaincc(len(row), max(0.0, statistic)))


def smallest(space: float, n: int) -> float:
    """The smallest p-value that n ranks can give at all: every one of them 1."""
    return p_value(space, np.ones(n))
