"""(ε, δ) of one Gaussian release, exactly (Balle and Wang 2018, arXiv 1805.06530, theorem 8)."""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from audit.statistics.search import smallest

_ULPS = 1e-15  # relative error of log Φ and its argument
_WIDTH = 1e-10  # relative


def log_delta(epsilon: float, mu: float) -> float:
    """Compute log δ(ε) = log[Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)] of N(μ, 1) against N(0, 1), μ > 0.

    Rounding errors are added to the difference, so δ is never too small.
    """
    upper = float(log_ndtr(mu / 2.0 - epsilon / mu))
    lower = float(log_ndtr(-mu / 2.0 - epsilon / mu))
    rounding = _ULPS * (1.0 + epsilon - upper - lower)
    gap = max(0.0, upper - lower - epsilon) + rounding
    return upper + math.log(-math.expm1(-gap))


def gaussian_epsilon(mu: float, log_delta_allowed: float) -> float:
    """Compute the smallest ε >= 0 (nats) with log δ(ε) <= log_delta_allowed, to ten digits.

    mu: distance of the two means in standard deviations; T releases of distance μ make √T·μ.
    Rounded up. inf for δ = 0 or an infinite μ; 0 for μ = 0. Equals dp-accounting's
    gaussian_mechanism.get_epsilon_gaussian(1/μ, δ), and also works where δ underflows.
    """
    if mu == 0.0 or log_delta_allowed >= 0.0:
        return 0.0
    if math.isinf(mu) or math.isinf(log_delta_allowed):
        return math.inf
    if log_delta(0.0, mu) <= log_delta_allowed:
        return 0.0
    high = mu * mu / 2.0 + mu * math.sqrt(-2.0 * log_delta_allowed)  # δ <= Φ(μ/2 - ε/μ)
    return smallest(lambda e: log_delta(e, mu) <= log_delta_allowed, 0.0, high, relative=_WIDTH)
