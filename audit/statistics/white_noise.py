"""Tests of noise that should be independent and Gaussian: its scale, shape and independence.

Every p-value is two-sided. Arrays are (T, d): d values in each of T steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, ndtr
from scipy.stats import beta, kstest, rankdata

Floats = NDArray[np.float64]
_READ = 20_000  # values that the Kolmogorov-Smirnov test reads


def scale_p(energy: float, mean: float, variance: float) -> float:
    """Compute the p-value of a sum of squares with this mean and variance.

    A χ² law scaled to both. It is exact where the values are independent: then the mean is their
    number n and the variance 2n.
    """
    scale = variance / (2.0 * mean)
    degrees, value = mean / scale, energy / scale
    return min(1.0, 2.0 * float(min(chdtr(degrees, value), chdtrc(degrees, value))))


def normal_p(z: float) -> float:
    """Compute the p-value of a standard normal value."""
    return float(2.0 * ndtr(-abs(z)))


def kurtosis(values: Floats) -> tuple[float, float]:
    """Compute (fourth moment over the squared second, p-value); 3 is due."""
    squares = values.ravel() ** 2
    if not squares.any():
        return 0.0, 0.0
    found = float((squares**2).mean() / squares.mean() ** 2)
    return found, normal_p((found - 3.0) / np.sqrt(24.0 / squares.size))


def kolmogorov_smirnov(values: Floats) -> tuple[float, float]:
    """Compute (distance from a normal law, p-value) of at most 20,000 evenly spaced values.

    The law has mean 0 and the variance of all values: where nearly all are read, p is too large.
    """
    flat = values.ravel()
    if not flat.any():
        return 1.0, 0.0
    scale = float(np.sqrt((flat**2).mean()))
    found = kstest(flat[:: -(-flat.size // _READ)] / scale, "norm")
    return float(found.statistic), float(found.pvalue)


def step_correlations(values: Floats) -> tuple[float, float]:
    """Find (the largest correlation of two steps, its p-value over all pairs).

    The squared cosine of the angle of two independent Gaussian vectors is Beta(1/2, (d − 1)/2).
    """
    steps, width = values.shape
    directions = _directions(values)
    cosines = np.triu(directions @ directions.T, 1)
    worst = float(cosines.flat[np.abs(cosines).argmax()])
    p = float(beta.sf(min(1.0, worst * worst), 0.5, (width - 1) / 2.0))
    return worst, min(1.0, p * steps * (steps - 1) / 2.0)


def likest(one: Floats, other: Floats) -> tuple[float, float]:
    """Find (the largest correlation of a step of one with a step of the other, its p-value).

    The p-value is one-sided, and over all pairs. It is that of fair coins, or a little larger.
    """
    cosines = _directions(one) @ _directions(other).T
    worst = float(cosines.max(initial=0.0))
    return worst, min(1.0, cosines.size * float(ndtr(-worst * np.sqrt(one.shape[1]))))


def lag_one(values: Floats) -> tuple[float, float]:
    """Compute (the mean correlation of consecutive steps, its p-value).

    The correlations are uncorrelated and have the variance 1/d each.
    """
    steps, width = values.shape
    directions = _directions(values)
    found = float((directions[1:] * directions[:-1]).sum(axis=1).mean())
    return found, normal_p(found * np.sqrt(width * (steps - 1)))


def _directions(values: Floats) -> Floats:
    """Divide each step by its length; a step of zeros stays."""
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(lengths > 0, lengths, 1.0))


def correlation(one: Floats, other: Floats, due: float = 0.0) -> tuple[float, float]:
    """Compute (Σ xy/n of two arrays of N(0, 1) in the same places, p-value); `due` is its mean."""
    found = float((one * other).mean())
    return found, normal_p((found - due) * np.sqrt(one.size))


def rank_correlation(one: Floats, other: Floats) -> tuple[float, float]:
    """Compute (Spearman's ρ, p-value); (0, 1) where one of the two is constant."""
    ranks = np.array([rankdata(one), rankdata(other)])
    if np.ptp(ranks, axis=1).min() == 0:
        return 0.0, 1.0
    found = float(np.corrcoef(ranks)[0, 1])
    return found, float(beta.sf(min(1.0, found * found), 0.5, (len(one) - 2) / 2.0))
