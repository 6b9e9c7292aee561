"""Solves equation 2 of SubMix (arXiv 2201.00971): the weight of a part's two members against h_∅.

λ_i is searched on the grid j/2³⁰, for all parts and queries together. log D_α is nearly linear in
log λ (D_α grows as λ² near 0), so secants need 6 evaluations and bisection 31. Only evaluations
narrow the bracket, so the guesses of the secant cannot change the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch

Leakage = Callable[["torch.Tensor"], "torch.Tensor"]

_GRID = 2.0**30  # λ is a multiple of 1/_GRID
_SECANTS = 16  # evaluations, then brackets that are still open are bisected
_SLOPES = (0.1, 100.0)  # plausible slopes of log D_α in log λ; others come from rounding or jumps
_TINY = 1e-300  # avoids 0/0 in ratios of probabilities that underflow
_LEAST = -600.0  # nats; log-probabilities above it have powers and ratios in float64's range


@dataclass(frozen=True)
class Pmfs:
    """Pmfs for n queries of the members, pair by pair, then the public model: (n, 2k + 1, V).

    log_p: nats. p: probabilities, none exactly 0. in_range: whether none underflows, so that p is
    as precise as log_p.
    """

    log_p: torch.Tensor
    p: torch.Tensor
    in_range: bool

    @staticmethod
    def of(log_p: torch.Tensor) -> Pmfs:
        in_range = bool(log_p.amin() > _LEAST)
        p = log_p.exp()
        return Pmfs(log_p, p if in_range else p.add_(_TINY), in_range)


def mixing_weights(pmfs: Pmfs, alpha: float, beta: float) -> torch.Tensor:
    """Find λ_i = max{λ ∈ [0, 1] : D_α(λh_π+(1−λ)h_∅ ‖ λh_π'+(1−λ)h_∅) ≤ β}, (n, k).

    D_α grows with λ, and the feasible end of the bracket is returned, so D_α never exceeds β.
    """
    p = pmfs.p
    leakage = _leakage_of_order_2(p) if alpha == 2.0 else _leakage(p, alpha)

    def of(lambdas: np.ndarray) -> np.ndarray:
        leaked: np.ndarray = leakage(torch.from_numpy(lambdas).to(p.device)).cpu().numpy()
        return leaked

    weights = torch.from_numpy(largest(of, (len(p), p.shape[1] // 2), beta)).to(p.device)
    if pmfs.in_range:
        return weights
    # divergences hidden by _TINY are checked in log space
    public, to = pmfs.log_p[:, -1:], weights[..., None]
    mixed = [_blend(pmfs.log_p[:, j:-1:2], public, to) for j in (0, 1)]
    hidden = divergence(mixed[0], mixed[1], alpha) > beta * (1 + 1e-9) + 1e-12
    return torch.where(hidden, torch.zeros_like(weights), weights)


def _leakage(p: torch.Tensor, alpha: float) -> Leakage:
    """Return the function from λ (n, k) to D_α of equation 2, nats; NaN counts as infeasible."""
    first, second, base = p[:, 0:-1:2], p[:, 1:-1:2], p[:, -1:]

    def leakage(weight: torch.Tensor) -> torch.Tensor:
        p = torch.lerp(base, first, weight[..., None])
        q = torch.lerp(base, second, weight[..., None])
        moment = torch.div(p, q, out=q).pow_(alpha - 1).mul_(p).sum(dim=-1)
        return moment.log_().div_(alpha - 1)

    return leakage


def _leakage_of_order_2(p: torch.Tensor) -> Leakage:
    """Return `_leakage` for α = 2: D_2(P‖Q) = log(1 + Σ (p − q)²/q), p − q = λ(h_π − h_π')."""
    first, second, base = p[:, 0:-1:2], p[:, 1:-1:2], p[:, -1:]
    squares = (first - second).square_()

    def leakage(weight: torch.Tensor) -> torch.Tensor:
        q = torch.lerp(base, second, weight[..., None])
        return torch.div(squares, q, out=q).sum(dim=-1).mul_(weight.square()).log1p_()

    return leakage


def largest(
    leakage: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int], beta: float
) -> np.ndarray:
    """Find the largest λ on the grid with leakage(λ) ≤ β; 0 always has it, NaN never.

    Uses NumPy because the arrays are small and its calls are cheaper than torch's.
    """
    with np.errstate(all="ignore"):  # a leakage of 0, NaN or ∞ gives no secant
        leaked = leakage(np.ones(shape))
        low = np.where(leaked <= beta, _GRID, 0.0)  # in grid steps: ≤ β at low, > β at high
        high = low + np.where(low, 1.0, _GRID)
        x, y = np.zeros(shape), np.log(leaked / beta)  # log λ and log D_α/β of the last evaluation
        slope = np.full(shape, 2.0)
        for evaluation in count():
            if (high - low <= 1).all():
                return low / _GRID
            middle = np.floor((low + high) / 2)
            secant = x - y / slope if evaluation < _SECANTS else x * np.nan
            guess = np.where(np.isfinite(secant), np.floor(np.exp(secant) * _GRID), middle)
            guess = np.minimum(np.maximum(guess, low + 1), high - 1)
            leaked = leakage(guess / _GRID)
            fits = leaked <= beta
            low, high = np.where(fits, guess, low), np.where(fits, high, guess)
            last_x, last_y = x, y
            x, y = np.log(guess / _GRID), np.log(leaked / beta)
            steep = (y - last_y) / (x - last_x)
            slope = np.where((steep > _SLOPES[0]) & (steep < _SLOPES[1]), steep, slope)
    raise AssertionError


def _blend(log_p: torch.Tensor, log_q: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Compute log(λp + (1 − λ)q), nats, also at λ = 0 and λ = 1."""
    return torch.logaddexp(weight.log() + log_p, torch.log1p(-weight) + log_q)


def divergence(log_p: torch.Tensor, log_q: torch.Tensor, alpha: float) -> torch.Tensor:
    """Compute D_α(P‖Q) = log E_Q[(P/Q)^α] / (α − 1) along the last axis, nats, at least 0."""
    terms = alpha * log_p - (alpha - 1) * log_q
    terms = torch.where(log_p == -math.inf, log_p, terms)  # tokens with P = 0 add nothing
    moment = torch.logsumexp(terms, dim=-1)
    return (moment / (alpha - 1)).clamp_(min=0.0)
