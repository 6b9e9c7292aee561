"""Rényi divergence of finite distributions (van Erven and Harremoës 2014, arXiv 1206.2459)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def renyi_divergence(
    log_p: ArrayLike, log_q: ArrayLike, alpha: float, axis: int = -1
) -> NDArray[np.float64]:
    """Computes D_α(P‖Q) = log E_Q[(P/Q)^α] / (α-1), nats; α = 1: KL, α = inf: the largest log P/Q.

    log_p, log_q: natural-log probabilities, broadcast together, each normalised along `axis`;
    -inf = impossible. Returns the broadcast shape without `axis`, float64, at least 0. Where P is
    0 nothing is added; where Q is 0 and P is not, the result is inf. Raises ValueError for
    α < 1, NaN, or a log-probability above 0 by more than rounding (1e-6).
    """
    p, q = np.broadcast_arrays(
        np.asarray(log_p, dtype=np.float64), np.asarray(log_q, dtype=np.float64)
    )
    if not alpha >= 1.0:
        raise ValueError(f"the order alpha must be at least 1; got {alpha}")
    if not ((p <= 1e-6) & (q <= 1e-6)).all():
        raise ValueError("log-probabilities must be at most 0 and not NaN")
    possible = p > -np.inf
    ratio = np.full(p.shape, -np.inf)
    np.subtract(p, q, out=ratio, where=possible)
    if math.isinf(alpha):
        divergence = np.max(ratio, axis=axis)
    elif alpha == 1.0:
        terms = np.zeros(p.shape)
        np.multiply(np.exp(p), ratio, out=terms, where=possible)
        divergence = np.sum(terms, axis=axis)
    else:
        terms = np.full(p.shape, -np.inf)  # log of P (P/Q)^(α-1)
        np.add(p, (alpha - 1.0) * ratio, out=terms, where=possible)
        divergence = _log_sum_exp(terms, axis) / (alpha - 1.0)
    return np.asarray(np.maximum(divergence, 0.0))


def _log_sum_exp(terms: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Computes log Σ e^terms. scipy's logsumexp is two to nine times slower, and its last digit
    differs: calibrated noise depends on it to the bit, and trainings are named by their noise."""
    top = np.max(terms, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        total = np.log(np.sum(np.exp(terms - shift), axis=axis, keepdims=True)) + shift
    return np.asarray(np.squeeze(total, axis=axis))
