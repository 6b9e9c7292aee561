"""From ρ-zCDP (D_α ≤ αρ for every order α) to (ε, δ), and back.

ε = αρ + κ(α) for every α, with κ(α) = log(1 − 1/α) − log(δα)/(α − 1) (Canonne, Kamath and Steinke,
arXiv 2004.00010, Proposition 12). A negative κ is raised to 0, so that ε is never below αρ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from scipy.optimize import minimize_scalar

_ORDERS = (-12.0, 16.0)  # of log(α − 1)
_HALVINGS = 60


@dataclass(frozen=True)
class Conversion:
    """ε of ρ-zCDP at δ, by one order.

    order: α. once: κ(α), nats, whatever ρ is. rho: ρ.
    """

    order: float
    once: float
    rho: float

    @property
    def epsilon(self) -> float:
        """The bound on ε, nats: κ + αρ."""
        return self.once + self.order * self.rho


def conversion(rho: float, delta: float) -> Conversion:
    """Find the order that gives the least ε (nats) of ρ-zCDP at δ; every order gives a bound."""

    def at(log_excess: float) -> Conversion:
        order = 1 + math.exp(log_excess)
        once = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        return Conversion(order, max(0.0, once), rho)

    found = minimize_scalar(lambda x: at(x).epsilon, bounds=_ORDERS, method="bounded")
    return at(float(found.x))


@lru_cache
def largest_rho(epsilon: float, delta: float) -> Conversion:
    """Find the largest ρ whose ε at δ is at most `epsilon`, nats; the feasible end is returned."""
    low, high = 0.0, epsilon  # ε > ρ, because α > 1 and κ ≥ 0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = conversion(middle, delta).epsilon <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return conversion(low, delta)
