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

_SMALL = 1e-4  # a shift, in scales, below which the closed form cancels
_REACH = 1e4  # orders up to 1 + this
_HALVINGS = 200


def laplace_divergence(shift: float, alpha: float) -> float:
    """g: D_α in nats between Laplace distributions of scale 1 that lie `shift` ≥ 0 apart.

    arXiv 1702.07476, Proposition 6. Below 1e-4 scales, where the closed form cancels, the bound
    α·shift²/2 stands for it, which holds for every pure guarantee: never below it.
    """
    if shift < _SMALL:
        return alpha * shift * shift / 2
    less, total = alpha - 1, 2 * alpha - 1
    if less * shift > 1:
        tail = less / total * math.exp(-total * shift)
        return shift + math.log(alpha / total + tail) / less
    grown = alpha / total * math.expm1(less * shift) + less / total * math.expm1(-alpha * shift)
    return math.log1p(grown) / less


def laplace_epsilon(scale: float, count: int, delta: float, teachers: int = 1) -> float:
    """ε (nats) of `count` sums of pmfs with Laplace(scale) on every coordinate.

    teachers: how many of the summed pmfs the unit changes, by any other pmfs. The least of what
    Rényi divergences give at δ and of the pure 2·teachers·count/scale (Δ₁ = 2 a teacher).
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
    """The least scale, to a relative 1e-12, with `laplace_epsilon` at most this many nats."""
    low, high = -50.0, 50.0  # its logarithm
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = laplace_epsilon(math.exp(middle), count, delta, teachers) <= epsilon
        low, high = (low, middle) if enough else (middle, high)
    return math.exp(high)
