"""Bound the mean of values in [0, 1] by a bet that it is larger (Waudby-Smith and Ramdas, arXiv
2010.09686, section 4: the hedged capital process, its lower side).

A gambler who stakes λ_t on x_t > m multiplies the wealth by 1 + λ_t (x_t − m). If the mean is at
most m, nothing is gained on average, so by Ville's inequality the wealth ever reaches 1/γ with
probability at most γ. The lower bound is the largest m at which it does. λ_t depends on the values
before x_t only: it grows as their variance falls, which is why the bound is tighter than
Hoeffding's near 0 and 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.statistics.checks import check_confidence
from audit.statistics.search import largest

_MOST = 0.75  # share of the wealth that may be lost at once
_WIDTH = 1e-9


def mean_lower(values: ArrayLike, confidence: float = 0.95) -> float:
    """Bound the mean of values in [0, 1] from below, one-sided.

    values: (n,), in the order in which they were drawn, each with the same mean given those before
    it. Returns 0.0 for no values. Raises ValueError for a value outside [0, 1], NaN, more than one
    row, or a confidence outside (0, 1).
    """
    row = _checked(values, confidence)
    stakes = _stakes(row, confidence)
    needed = -math.log1p(-confidence)
    return largest(lambda mean: _wealth(row, mean, stakes) >= needed, 0.0, 1.0, _WIDTH)


def exceeds(values: ArrayLike, mean: float, confidence: float = 0.95) -> bool:
    """Return whether the values refute that their mean is at most this one, in [0, 1]."""
    row = _checked(values, confidence)
    return _wealth(row, mean, _stakes(row, confidence)) >= -math.log1p(-confidence)


def _wealth(row: NDArray[np.float64], mean: float, stakes: NDArray[np.float64]) -> float:
    """Compute the log of the largest wealth on the way. It falls as `mean` grows: so does every
    factor, whether its stake is capped or not."""
    capped = np.minimum(stakes, _MOST / mean) if mean > 0.0 else stakes
    return float(np.cumsum(np.log1p(capped * (row - mean))).max(initial=0.0))


def _stakes(row: NDArray[np.float64], confidence: float) -> NDArray[np.float64]:
    """Compute λ_t = sqrt(2 ln(1/γ) / (n σ̂²_{t−1})), where σ̂² begins as the variance of a coin."""
    n = len(row)
    count = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(row)) / (count + 1)
    variances = (0.25 + np.cumsum((row - means) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], variances[:-1]])[:n]
    return np.asarray(np.sqrt(-2.0 * math.log1p(-confidence) / (n * before)))


def _checked(values: ArrayLike, confidence: float) -> NDArray[np.float64]:
    row = np.asarray(values, dtype=np.float64)
    if row.ndim != 1 or not ((row >= 0.0) & (row <= 1.0)).all():
        raise ValueError("values must be one row within [0, 1]")
    check_confidence(confidence)
    return row
