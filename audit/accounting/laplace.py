"""Laplace noise on sums of distributions: its Rényi divergence, and ε of many such answers.

A unit that changes n of the teachers moves the sum of their pmfs by v with Σ v⁺ = Σ v⁻ ≤ n, for
pmfs sum to 1. With noise of scale b the divergence is Σ_j g(|v_j|/b), where

    (α − 1)·g(s) = log[ α/(2α−1)·e^{(α−1)s} + (α−1)/(2α−1)·e^{−αs} ]

is a log-sum-exp of affine functions: convex, with g(0) = g'(0) = 0. A convex g with g(0) = 0 is
superadditive on s ≥ 0, so Σ g over the positive v_j is at most g of their sum, and likewise for the
negative ones: D_α ≤ 2·g(n/b), reached where teachers are sure of different tokens.
"""

from __future__ import annotations

import math

from audit.accounting.renyi import least_epsilon
from audit.statistics.search import smallest

_SMALL = 1e-4  # a shift, in scales, below which the closed form cancels
_REACH = 1e4  # orders up to 1 + this


def laplace_divergence(shift: float, alpha: float) -> float:
    """Compute g: D_α in nats between Laplace distributions of scale 1 at distance `shift` ≥ 0.

    arXiv 1702.07476, Proposition 6. Below 1e-4 scales, where the closed form cancels, it is
    replaced by the upper bound α·shift²/2 of every pure guarantee.
    """
    if shift < _SMALL:
        return alpha * shift * shift / 2
    less, total = alpha - 1, 2 * alpha - 1
    if less * shift > 1:
        tail = less / total * math.exp(-total * shift)
        return shift + math.log(alpha / total + tail) / less
    excess = alpha / total * math.expm1(less * shift) + less / total * math.expm1(-alpha * shift)
    return math.log1p(excess) / less


def laplace_epsilon(scale: float, count: int, delta: float, teachers: int = 1) -> float:
    """Compute ε (nats) of `count` sums of pmfs with Laplace(scale) noise on every coordinate.

    teachers: how many of the summed pmfs the unit may replace by any pmfs. The smaller of the
    Rényi bound at δ and of the pure ε = 2·teachers·count/scale (Δ₁ = 2 per teacher).
    """
    if count == 0 or teachers == 0:
        return 0.0
    if scale == 0.0:
        return math.inf
    shift = teachers / scale
    pure = 2.0 * shift * count
    if delta <= 0.0:
        return pure

    def divergence(order: float) -> float:
        return 2.0 * count * laplace_divergence(shift, order) * (1 + 1e-9)

    return min(pure, least_epsilon(divergence, _REACH, math.log(delta)))


def laplace_scale(epsilon: float, count: int, delta: float, teachers: int = 1) -> float:
    """Compute the least scale, to a relative 1e-12, with `laplace_epsilon` at most `epsilon`."""

    def enough(log_scale: float) -> bool:
        return laplace_epsilon(math.exp(log_scale), count, delta, teachers) <= epsilon

    return math.exp(smallest(enough, -50.0, 50.0))
