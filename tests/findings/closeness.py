"""How close a bound on ε can come: its law on randomised response, by scipy's quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import beta


def median_bound(m: int, epsilon: float, runs: int = 20_000) -> float:
    """The median bound (δ = 0, 95 %) from m coins that are told right with odds e^ε.

    Whoever is told "in" is above whoever is told "out", so each guess is right with probability q,
    independently. The highest 48th is part of the highest twelfth, which is part of the third.
    """
    generator, q = np.random.default_rng(0), 1 / (1 + np.exp(-epsilon))
    third, twelfth, few = m // 3, m // 12, m // 48

    def right(guesses: int) -> np.ndarray:
        return generator.binomial(guesses, q, size=runs)

    if m < 200:
        return float(np.median(_bound(right(2 * third), 2 * third, 0.05)))
    high = [right(few)]
    high += [high[-1] + right(twelfth - few)]
    high += [high[-1] + right(third - twelfth)]
    low = [right(twelfth)]
    low += [low[-1] + right(third - twelfth)]
    four = [
        _bound(high[2] + low[1], 2 * third, 0.05 / 4),
        _bound(high[1] + low[0], 2 * twelfth, 0.05 / 4),
        _bound(high[1], twelfth, 0.05 / 4),
        _bound(high[0], few, 0.05 / 4),
    ]
    return float(np.median(np.max(four, axis=0)))


def _bound(right: np.ndarray, guesses: int, error: float) -> np.ndarray:
    """Clopper and Pearson's lower limit on q, as ε = ln q/(1 − q), at least 0."""
    q = beta.ppf(error, np.maximum(right, 1), guesses - right + 1)
    return np.where(right > 0, np.maximum(0.0, logit(q)), 0.0)


def six(value: Any) -> Any:
    """These numbers as a result holds them, to a unit in the sixth digit."""
    return pytest.approx(value, rel=1e-5, abs=1e-12)
