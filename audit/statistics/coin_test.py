"""Exact test with fair coins: do units whose coin was heads appear more, or less, often?"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

_CELLS = 200_000  # totals up to here are counted exactly, larger ones sampled
_STEPS = 1 << 29  # of the law given the heads
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


def given_heads(weights: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Compute the law of the total for each number of heads: (owners + 1, sum + 1), rows add to 1.

    None where that takes too long.
    """
    own, owners = weights[weights > 0], len(weights)
    if len(own) * (len(own) + 1) * (int(own.sum()) + 1) > _STEPS:
        return None
    joint = np.zeros((len(own) + 1, int(own.sum()) + 1))  # of heads and totals among these
    joint[0, 0] = 1.0
    for w in own.tolist():
        joint[1:, w:] = 0.5 * joint[1:, w:] + 0.5 * joint[:-1, : joint.shape[1] - w]
        joint[0] *= 0.5
        joint[1:, :w] *= 0.5
    heads = np.arange(owners + 1)
    others = scipy.stats.binom.pmf(heads[:, None] - np.arange(len(own) + 1), owners - len(own), 0.5)
    law = others @ joint
    return np.asarray(law / scipy.stats.binom.pmf(heads, owners, 0.5)[:, None])


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
