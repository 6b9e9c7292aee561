"""Tests of Poisson sampling: every unit by its own coin of probability q in every step."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from audit.statistics.sums import on_grid, sum_law
from audit.statistics.white_noise import normal_p

_GRID = 50  # places of the grid per unit of the dispersion
_LEAST = 1e-12  # the transform rounds: smaller p-values are reported as this
Counts = NDArray[np.int64]


def rate_p(total: int, trials: int, q: float) -> float:
    """Compute the two-sided p-value of `total` ~ Bin(trials, q)."""
    return float(scipy.stats.binomtest(total, trials, q).pvalue)


def dispersion(counts: Counts, size: int, q: float) -> tuple[float, float]:
    """Compute (index, p-value) of independent counts ~ Bin(size, q); an index of 1 is due.

    The index is Σ (n_t − mq)² / (T·mq(1 − q)), for T counts and m = size. Its law is a convolution,
    on a grid that keeps the mean; χ² with T degrees of freedom would be wrong for small mq(1 − q).
    The grid moves a sum by √T/2 places at most, in deviations; four times that are counted in.
    """
    variance = size * q * (1.0 - q)
    if variance == 0.0:
        return 1.0, float((counts == size * q).all())
    total = float(((counts - size * q) ** 2).sum() / variance)
    values = np.arange(size + 1, dtype=np.float64)
    masses = scipy.stats.binom.pmf(values, size, q)
    grid = on_grid((values - size * q) ** 2 / variance * _GRID, masses)
    law = sum_law(grid, len(counts))
    cut, margin = round(total * _GRID), math.ceil(2.0 * math.sqrt(len(counts)))
    lower, upper = law[: cut + margin + 1].sum(), law[max(0, cut - margin) :].sum()
    return total / len(counts), min(1.0, max(_LEAST, 2.0 * float(min(lower, upper))))


def above_p(counts: Counts, size: int, q: float) -> float:
    """Test how many counts exceed their mean mq; batches of a capped size do so too rarely."""
    mean = size * q
    share = float(scipy.stats.binom.sf(np.floor(mean + 1e-9), size, q))
    above = int((counts > mean + 1e-9).sum())
    return float(scipy.stats.binomtest(above, len(counts), share).pvalue)


def lag_one_p(included: Counts, q: float) -> float:
    """Test inclusions (T, m) for dependence of consecutive steps; return the p-value.

    Both the size of the batches and each unit's own inclusion.
    """
    variance = q * (1.0 - q)
    steps, size = included.shape
    if variance == 0.0:
        return 1.0
    rest = included - q
    own = float((rest[1:] * rest[:-1]).sum() / (variance * np.sqrt((steps - 1) * size)))
    batches = rest.sum(axis=1)
    whole = float((batches[1:] * batches[:-1]).sum() / (size * variance * np.sqrt(steps - 1)))
    return min(1.0, 2.0 * min(normal_p(own), normal_p(whole)))
