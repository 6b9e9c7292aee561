"""Test guesses about coins against the trade-off curve of a claimed mechanism.

The curve bounds how far an event can be likelier with a unit than without it. It is tighter than
one (ε, δ) pair, so a false claim falls with fewer coins. Units may depend on each other in any way.
Derivation: docs/methods/claims-on-a-trade-off-curve.md; the recursion is that of Mahloujifar et al.
2024 (arXiv 2410.22235).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from audit.statistics.checks import check_guesses
from audit.statistics.search import smallest

EPSILONS: NDArray[np.float64] = np.concatenate([np.arange(161) * 0.025, np.linspace(4.1, 30, 200)])
_LARGEST = 700.0  # nats: e^ε is a float
_LOG_LEAST = -60.0  # p-values below e^-60 are reported as e^-60
_SLACK = 1e-12
_ROUNDING = 1e-14  # above the error of a difference of two probabilities
_WIDTH = 1e-9  # of log p


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
        if not (self.epsilons < _LARGEST).all():
            raise ValueError(f"ε of a curve must be below {_LARGEST:g}")

    def above(self, w: float) -> float:
        """Compute h(w), at most 1."""
        rise = np.exp(self.epsilons) * w + self.deltas
        fall = 1.0 - np.exp(-self.epsilons) * (1.0 - w - self.deltas)
        return float(min(1.0, rise.min(), fall.min()))

    def inverse(self, y: float) -> float:
        """Compute the least w with h(w) ≥ y, at least 0."""
        starts, lines = self._inverse
        return max(0.0, lines[bisect_right(starts, y) - 1].at(y))

    @cached_property
    def advantage(self) -> float:
        """The largest P(A) − Q(A) that the curve allows: its δ at ε = 0, in (0, 1]."""
        e = np.exp(self.epsilons)
        return float(min(1.0, ((e - 1.0 + 2.0 * self.deltas) / (e + 1.0)).min()))

    @cached_property
    def _inverse(self) -> tuple[list[float], list[_Line]]:
        """The lines of which h⁻¹ is made, and the y from which each is the largest.

        A rounding error here can only choose a line that is not the largest, which makes h⁻¹
        smaller and a rejection less likely.
        """
        pairs = list(zip(np.exp(self.epsilons).tolist(), self.deltas.tolist(), strict=True))
        rising = [_Line(1.0 / e, delta, True) for e, delta in pairs]
        falling = [_Line(e, 1.0 - delta, False) for e, delta in pairs]
        hull: list[_Line] = [_Line(0.0, 0.0, True)]
        starts = [-math.inf]
        for line in sorted([*rising, *falling], key=lambda line: (line.slope, line.at(1.0))):
            while len(hull) > 1 and line.overtakes(hull[-1]) <= starts[-1]:
                hull.pop()
                starts.pop()
            starts.append(line.overtakes(hull[-1]))
            hull.append(line)
        return starts, hull


@dataclass(frozen=True, slots=True)
class _Line:
    """y ↦ slope·(y − shift) if from_zero, else shift − slope·(1 − y): each exact where it is used.

    With e^ε near 10¹³, one form for both would lose all digits.
    """

    slope: float
    shift: float
    from_zero: bool

    def at(self, y: float) -> float:
        if self.from_zero:
            return self.slope * (y - self.shift)
        return self.shift - self.slope * (1.0 - y)

    def overtakes(self, flatter: _Line) -> float:
        """Compute the y above which this line is the larger of the two."""
        gap = self.at(1.0) - flatter.at(1.0)
        if self.slope == flatter.slope:
            return -math.inf if gap >= 0.0 else math.inf
        return 1.0 - gap / (self.slope - flatter.slope)


def gaussian(mu: float) -> Curve:
    """Build the curve of a Gaussian mechanism: N(μ, 1) against N(0, 1), the same both ways."""
    if not 0.0 < mu < math.inf:
        raise ValueError(f"mu must be above 0 and finite; got {mu}")
    shifted, half = EPSILONS / mu, mu / 2.0
    deltas = ndtr(half - shifted) - np.exp(EPSILONS) * ndtr(-half - shifted)
    return Curve(EPSILONS, np.maximum(0.0, deltas) + _ROUNDING)


@lru_cache(maxsize=4096)  # many measures of a release have the same counts
def p_value(curve: Curve, coins: int, guesses: int, right: int) -> float:
    """Compute the p-value of the claim that no mechanism beyond this curve answered.

    coins: m fair coins. guesses: r of them are guessed, by a rule fixed beforehand.
    right: v right guesses. Small where v is improbable under the claim; 1 where v = 0.
    Raises ValueError unless 0 ≤ v ≤ r ≤ m and m ≥ 1.
    """
    _check(coins, guesses, right)
    if _feasible(1.0, curve, coins, guesses, right):
        return 1.0
    log_p = smallest(
        lambda log_tau: not _feasible(math.exp(log_tau), curve, coins, guesses, right),
        _LOG_LEAST,
        0.0,
        width=_WIDTH,
    )
    return math.exp(log_p)


def is_refuted(curve: Curve, coins: int, guesses: int, right: int, level: float) -> bool:
    """Return whether `p_value` is below the level, in one step instead of a bisection.

    level: between e^-59 and 1.
    """
    _check(coins, guesses, right)
    if not math.exp(_LOG_LEAST + 1.0) <= level < 1.0:
        raise ValueError(f"level must lie between e^-59 and 1; got {level}")
    below = level * (1.0 - 2.0 * _WIDTH)
    return not _feasible(below, curve, coins, guesses, right)


def _check(coins: int, guesses: int, right: int) -> None:
    check_guesses(coins, guesses, right)
    if coins < 1:
        raise ValueError("a test needs at least one coin")


def _feasible(tau: float, curve: Curve, m: int, r: int, v: int) -> bool:
    """Return whether P[at least v right] = τ is possible under the curve.

    R and W: the expected share of right and wrong guesses where at least j + 1 are right, over m.
    With v = 0 there is nothing to exceed, and everything is possible.
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
