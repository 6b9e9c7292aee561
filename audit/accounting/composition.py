"""Compute the total ε of a mechanism: the least of the exact, PLD and Rényi bounds that apply."""

from __future__ import annotations

import math

from audit.accounting.gaussian import gaussian_epsilon
from audit.accounting.mechanism import Mechanism
from audit.accounting.renyi import renyi_epsilon

TOLERANCE = 3e-6


def epsilon(mechanism: Mechanism, delta: float, tolerance: float = TOLERANCE) -> float:
    """Compute an upper bound on ε (nats) at δ, for the mechanism's unit and relation.

    If all releases are one Gaussian: the exact closed form. Else the least of three upper bounds:
    the PLD of all releases composed (dp-accounting, pessimistic), Rényi divergences (for δ below
    what the PLD resolves), and the closed form without amplification.
    tolerance: how far above the PLD's limit ε may stay, relative to ε, or in nats for ε < 1.
    inf for δ = 0 and for no noise; 0 where nothing is released. Raises ValueError unless
    0 <= δ <= 1.
    """
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"delta must lie between 0 and 1; got {delta}")
    return epsilon_at(mechanism, math.log(delta) if delta else -math.inf, tolerance)


def epsilon_at(mechanism: Mechanism, log_delta: float, tolerance: float = TOLERANCE) -> float:
    """Compute `epsilon` at log δ, for δ too small for a float."""
    bound = ceiling(mechanism, log_delta)
    if mechanism.is_gaussian or mechanism.noiseless or math.isinf(log_delta):
        return bound
    from audit.accounting.pld import pld_epsilon  # its library takes half a second to import

    return min(bound, pld_epsilon(mechanism, math.exp(log_delta), tolerance))


def ceiling(mechanism: Mechanism, log_delta: float) -> float:
    """Compute a quick upper bound on ε: the unamplified closed form, or Rényi divergences."""
    return min(gaussian_epsilon(mechanism.mu, log_delta), renyi_epsilon(mechanism, log_delta))
