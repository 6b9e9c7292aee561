"""Exact test with fair coins: do units whose coin was heads appear more, or less, often?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

_CELLS = 200_000  # totals up to here are counted exactly, larger ones sampled
_CELLS_AT_ONCE = 1 << 22  # coins held in memory together


def p_value(
    weights: ArrayLike, coins: ArrayLike, stream: np.random.Generator, resamples: int = 9999
) -> float:
    """Compute how improbable the sum of w_o C_o is over fair coins C_o, two-sided.

    Twice the probability of a sum at least as far from its mean on the same side: units that are
    trained on and appear less often, as behind a block list, depend on the data as well.

    weights: (owners,), whole numbers >= 0, such as how many generations name each owner; coins:
    (owners,), True = trained on. Under the null the coins are independent of the weights, so
    the level holds whatever the weights and however they depend on each other. Exact (by
    convolution; floored at 1e-300) while the weights add up to at most 200,000; beyond, coins are
    drawn from `stream` and p = 2 (1 + as far)/(1 + resamples). 1.0 if all weights are 0.
    Raises ValueError for shapes that differ, a negative or fractional weight.
    """
    weight, coin = np.asarray(weights), np.asarray(coins, dtype=bool)
    if weight.ndim != 1 or weight.shape != coin.shape:
        raise ValueError(f"one weight and one coin an owner; got {weight.shape}, {coin.shape}")
    if not ((weight >= 0) & (weight == np.floor(weight))).all():
        raise ValueError("weights must be whole numbers, not negative")
    whole = weight.astype(np.int64)
    most = max(int(whole[coin].sum()), int(whole[~coin].sum()))  # fair coins: sides are alike
    whole = whole[whole > 0]
    if not len(whole):
        return 1.0
    if whole.sum() <= _CELLS:
        return min(1.0, max(1e-300, 2.0 * float(_totals(whole)[most:].sum())))
    return min(1.0, 2.0 * (1 + _as_large(whole, most, stream, resamples)) / (1 + resamples))


def smallest(weights: ArrayLike, resamples: int = 9999) -> float:
    """Compute the smallest p-value possible with these weights: that of all coins alike."""
    weight = np.asarray(weights)
    exact = max(1e-300, 2.0 * 0.5 ** int((weight > 0).sum()))
    return min(1.0, exact if weight.sum() <= _CELLS else max(exact, 2 / (resamples + 1)))


def tails(weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute P[total >= t] over fair coins for every t from 0 to the sum of the weights.

    Exact up to a sum of 200,000; by the normal law beyond.
    """
    most = int(weights.sum())
    if most <= _CELLS:
        return np.minimum(1.0, np.cumsum(_totals(weights[weights > 0])[::-1])[::-1])
    deviation = float(np.sqrt((weights.astype(float) ** 2).sum())) / 2
    return np.asarray(ndtr((most / 2 + 0.5 - np.arange(most + 1)) / deviation))


def _totals(weights: NDArray[np.int64]) -> NDArray[np.float64]:
    """Compute the distribution of the total, shape (sum of the weights + 1,)."""
    law = np.zeros(int(weights.sum()) + 1)
    law[0], top = 1.0, 0
    for w in weights.tolist():
        tails = 0.5 * law[: top + 1]
        law[: top + 1] = tails
        top += w
        law[w : top + 1] += tails
    return law


def _as_large(
    weights: NDArray[np.int64], observed: int, stream: np.random.Generator, resamples: int
) -> int:
    rows = max(1, _CELLS_AT_ONCE // len(weights))
    count = 0
    for start in range(0, resamples, rows):
        shape = (min(rows, resamples - start), len(weights))
        count += int((stream.integers(0, 2, shape, dtype=np.int8) @ weights >= observed).sum())
    return count
