"""Rényi divergence of finite distributions (van Erven and Harremoës 2014, arXiv 1206.2459)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def renyi_divergence(log_p: ArrayLike, log_q: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """Compute D_α(P‖Q) = log E_Q[(P/Q)^α] / (α-1), nats.

    log_p, log_q: natural-log probabilities, broadcast together, each normalised along the last
    axis; -inf = impossible. Returns the broadcast shape without that axis, float64, at least 0.
    Where P is 0 nothing is added; where Q is 0 and P is not, the result is inf. Raises ValueError
    unless 1 < α < inf, for NaN, or a log-probability above 0 by more than rounding (1e-6).
    """
    p, q = np.broadcast_arrays(
        np.asarray(log_p, dtype=np.float64), np.asarray(log_q, dtype=np.float64)
    )
    if not 1.0 < alpha < math.inf:
        raise ValueError(f"the order alpha must lie between 1 and inf; got {alpha}")
    if not ((p <= 1e-6) & (q <= 1e-6)).all():
        raise ValueError("log-probabilities must be at most 0 and not NaN")
    possible = p > -np.inf
    ratio = np.full(p.shape, -np.inf)
    np.subtract(p, q, out=ratio, where=possible)
    terms = np.full(p.shape, -np.inf)  # log of P (P/Q)^(α-1)
    np.add(p, (alpha - 1.0) * ratio, out=terms, where=possible)
    return np.asarray(np.maximum(_log_sum_exp(terms) / (alpha - 1.0), 0.0))


def least_divergence(
    log_p: ArrayLike, log_q: ArrayLike, alpha: float, error: float
) -> NDArray[np.float64]:
    """Bound D_α(P‖Q) from below where each log-probability may be off by `error` nats.

    As `renyi_divergence`. (Derived.) log Σ P^α Q^{1-α} is
    convex in the log-probabilities, so it lies above its tangent at the pmfs that were read. Its
    slope is αw in log P and (1-α)w in log Q, with w ∝ P^α Q^{1-α}. Errors e keep the sum of a pmf,
    so |Σ P e| <= exp(error) - 1 - error, and only Σ |w - P| and Σ |w - Q| count. Raises ValueError
    as `renyi_divergence`, and unless 0 <= error < inf.
    """
    if not 0.0 <= error < math.inf:
        raise ValueError(f"the error must be finite and not negative; got {error}")
    p, q = np.asarray(log_p, dtype=np.float64), np.asarray(log_q, dtype=np.float64)
    divergence = renyi_divergence(p, q, alpha)
    finite = np.isfinite(divergence)
    p, q = (np.where(finite[..., None], x, 0.0) for x in np.broadcast_arrays(p, q))
    shift = np.where(finite, divergence, 0.0)[..., None]
    terms = np.full(p.shape, -np.inf)
    possible = p > -np.inf
    np.subtract(alpha * p, (alpha - 1.0) * (q + shift), out=terms, where=possible)
    weights, p, q = np.exp(terms), np.exp(p), np.exp(q)
    slope_p = np.abs(weights - p).sum(axis=-1) * error + math.expm1(error) - error
    slope_q = np.abs(weights - q).sum(axis=-1) * error
    lost = np.where(finite, alpha / (alpha - 1.0) * slope_p + slope_q, 0.0)
    return np.asarray(np.maximum(divergence - lost, 0.0))


def _log_sum_exp(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute log Σ e^terms. scipy's logsumexp is two to nine times slower, and its last digit
    differs: calibrated noise depends on it to the bit, and trainings are named by their noise."""
    top = np.max(terms, axis=-1, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        total = np.log(np.sum(np.exp(terms - shift), axis=-1, keepdims=True)) + shift
    return np.asarray(np.squeeze(total, axis=-1))
