"""Rényi divergence of a noised vector that is clamped from below and divided by its sum.

(Derived.) Laplace noise is added to each of V means and values below a floor are raised to it, so a
coordinate has an atom at the floor and Laplace's density above it. With F the chance of the atom,

    E_Q (P/Q)^α = F_P^α F_Q^{1−α} + ∫_floor^∞ p^α q^{1−α},

and coordinates multiply. Division by the sum hides nothing once two coordinates are at the floor:
they are equal, so the sum is the floor over their value. What comes with fewer at the floor is
counted as one outcome, which by data processing makes the divergence no larger.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
_CANCELS = 1e-9  # nats; the difference of closer logs is rounding


def least_divergence(
    means_p: ArrayLike,
    means_q: ArrayLike,
    scale: float,
    floor: float,
    alpha: float,
    error: float = 0.0,
) -> Array:
    """Bound D_α(P‖Q), nats, from below for what is released of vectors with these means.

    means_p, means_q: (…, V), the means of one release and of the other, each at least 0 with sum 1.
    scale: of the noise. floor: above 0. error: by how much each log of a mean may be off, nats: it
    moves a log density by at most (exp(error) − 1)/scale. Returns shape (…). Raises ValueError
    unless 1 < α < inf and scale, floor > 0.
    """
    if not (1.0 < alpha < math.inf and scale > 0.0 and floor > 0.0 and error >= 0.0):
        raise ValueError("alpha must lie between 1 and inf, scale and floor above 0")
    p, q = (np.asarray(means, dtype=np.float64) for means in (means_p, means_q))
    a, c, t = p / scale, q / scale, floor / scale
    atom = alpha * _log_below(t - a) + (1.0 - alpha) * _log_below(t - c)
    above = _log_above(a, c, t, alpha)
    whole = np.logaddexp(atom, above).sum(axis=-1)
    few = _log_few(atom, above)
    few_p, few_q = (_log_few(_log_below(t - x), _log_below(x - t)) for x in (a, c))
    # whole − few + few_P^α few_Q^{1−α}; the difference is left out where rounding would make it
    with np.errstate(divide="ignore"):
        rest = np.log1p(-np.exp(np.minimum(few - whole, 0.0)))
    known = np.where(few - whole < -_CANCELS, whole + rest, -np.inf)
    moment = np.logaddexp(known, alpha * few_p + (1.0 - alpha) * few_q)
    lost = (2.0 * alpha - 1.0) * math.expm1(error) / scale
    return np.asarray(np.maximum((moment - lost) / (alpha - 1.0), 0.0))


def _log_below(x: Array) -> Array:
    """Compute log P(Laplace(1) <= x)."""
    inside = np.minimum(x, 0.0) - math.log(2.0)
    return np.asarray(np.where(x < 0.0, inside, np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0)))))


def _log_above(a: Array, c: Array, t: float, alpha: float) -> Array:
    """Compute log ∫_t^∞ p^α q^{1−α} for Laplace densities of scale 1 around a and c.

    The log of the integrand is linear between t, the nearer centre, the farther one and ∞.
    """

    def log_density(x: Array) -> Array:
        return -alpha * np.abs(x - a) + (alpha - 1.0) * np.abs(x - c) - math.log(2.0)

    low, high = np.maximum(np.minimum(a, c), t), np.maximum(np.maximum(a, c), t)
    highest = np.maximum(log_density(low), log_density(high))
    pieces = (
        _log_piece(log_density(low), low - t, 1.0),
        _log_piece(highest, high - low, 2.0 * alpha - 1.0),
        log_density(high),  # falls by e per unit, so its integral to ∞ is its value
    )
    return np.asarray(np.logaddexp.reduce(pieces))


def _log_piece(highest: Array, length: Array, slope: float) -> Array:
    """Integrate an exponential of this slope over a piece, from the log of its highest value."""
    with np.errstate(divide="ignore"):
        return np.asarray(highest + np.log(-np.expm1(-slope * length)) - math.log(slope))


def _log_few(atoms: Array, above: Array) -> Array:
    """Compute log of the weight of no or one coordinate at its atom, along the last axis."""
    none = above.sum(axis=-1)
    one = np.logaddexp.reduce(atoms - above, axis=-1)
    return np.asarray(none + np.logaddexp(0.0, one))
