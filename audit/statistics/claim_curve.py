"""Tests guesses about coins against the trade-off curve of a claimed mechanism.

The curve says how far an event can be likelier with a unit than without it. It is tighter than one
(ε, δ) pair, so a false claim falls with fewer coins. Dependence between the units may be arbitrary.
Derivation: docs/methods.md; the recursion is that of Mahloujifar et al. 2024 (arXiv 2410.22235).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

EPSILONS: NDArray[np.float64] = np.concatenate([np.arange(161) * 0.025, np.linspace(4.1, 30, 200)])
_LOG_LEAST = -60.0  # p-values below e^-60 are reported as e^-60
_SLACK = 1e-12


@dataclass(frozen=True, eq=False)
class Curve:
    """h(w): an upper bound on P(A) given Q(A) = w, the least of many straight lines.

    epsilons: (k,), nats, each at least 0. deltas: (k,), the mean of the claimed mechanism's remove
    and add profiles at these ε, or anything above it: more lines or smaller δ only add power.
    """

    epsilons: NDArray[np.float64]
    deltas: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.epsilons.shape != self.deltas.shape or self.epsilons.ndim != 1:
            raise ValueError("a curve needs as many δ as ε, each in one row")
        if not ((self.epsilons >= 0).all() and (self.deltas >= 0).all()):
            raise ValueError("ε and δ of a curve must be at least 0")

    def above(self, w: float) -> float:
        """Computes h(w), at most 1."""
        rise = np.exp(self.epsilons) * w + self.deltas
        fall = 1.0 - np.exp(-self.epsilons) * (1.0 - w - self.deltas)
        return float(min(1.0, rise.min(), fall.min()))

    def inverse(self, y: float) -> float:
        """Computes the least w with h(w) ≥ y, at least 0."""
        rise = np.exp(-self.epsilons) * (y - self.deltas)
        fall = 1.0 - self.deltas - np.exp(self.epsilons) * (1.0 - y)
        return float(max(0.0, rise.max(), fall.max()))


def gaussian(mu: float) -> Curve:
    """Builds the curve of a Gaussian mechanism: N(μ, 1) against N(0, 1), the same both ways."""
    if not 0.0 < mu < math.inf:
        raise ValueError(f"mu must be above 0 and finite; got {mu}")
    shifted, half = EPSILONS / mu, mu / 2.0
    deltas = ndtr(half - shifted) - np.exp(EPSILONS) * ndtr(-half - shifted)
    return Curve(EPSILONS, np.maximum(0.0, deltas) + 1e-15)


def p_value(curve: Curve, coins: int, guesses: int, right: int) -> float:
    """Computes the p-value of the claim that no mechanism beyond this curve answered.

    coins: m fair coins. guesses: r of them are guessed, by a rule fixed beforehand.
    right: v right guesses. Small where v is improbable under the claim; 1 where v = 0.
    Raises ValueError unless 0 ≤ v ≤ r ≤ m and m ≥ 1.
    """
    if not (0 <= right <= guesses <= coins and coins >= 1):
        raise ValueError(f"guesses must satisfy 0 <= v <= r <= m; got {right}, {guesses}, {coins}")
    if right == 0 or _feasible(1.0, curve, coins, guesses, right):
        return 1.0
    low, high = _LOG_LEAST, 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2.0
        if _feasible(math.exp(middle), curve, coins, guesses, right):
            low = middle
        else:
            high = middle
    return math.exp(high)


def _feasible(tau: float, curve: Curve, m: int, r: int, v: int) -> bool:
    """Tells whether P[at least v right] = τ is possible under the curve.

    R and W: the expected share of right and wrong guesses where at least j + 1 are right, over m.
    """
    at_most = r / m * (1.0 + _SLACK)
    right, wrong = tau * v / m, tau * (r - v) / m
    for j in range(v - 1, -1, -1):
        least = max(wrong, curve.inverse(right))
        right += (least - wrong) * j / (r - j)
        wrong = least
        if right + wrong > at_most:
            return False
    return True
