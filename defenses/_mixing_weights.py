"""Equation 2 of SubMix (arXiv 2201.00971): how far a part's two members may go from h_∅.

λ_i is searched for on the grid j/2³⁰, for all parts and queries together. log D_α is nearly
straight in log λ (D_α grows as λ² near 0), so a secant needs 6 evaluations where bisection needs
31; it moves inside a bracket that only evaluations narrow, so its guesses cannot change the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch

Leakage = Callable[["torch.Tensor"], "torch.Tensor"]

_GRID = 2.0**30  # λ is a whole number of its steps
_SECANTS = 16  # evaluations; where they have not closed a bracket, it is halved from there on
_SLOPES = (0.1, 100.0)  # of log D_α in log λ; outside them rounding speaks, or a jump
_TINY = 1e-300  # keeps 0/0 out of ratios of probabilities that underflow
_LEAST = -600.0  # nats; log-probabilities above it have powers and ratios in float64's range


@dataclass(frozen=True)
class Pmfs:
    """n queries of the members, pair by pair, and last the public model: (n, 2k + 1, V).

    p: probabilities; none is quite 0. in_range: whether none underflows, so that log_p, nats, says
    no more than p.
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
    """λ_i = max{λ ∈ [0, 1] : D_α(λh_π+(1−λ)h_∅ ‖ λh_π'+(1−λ)h_∅) ≤ β}, (n, k).

    D_α grows with λ, and the feasible end is returned: the divergence at the answer never exceeds
    β.
    """
    p = pmfs.p
    leakage = _leakage_of_order_2(p) if alpha == 2.0 else _leakage(p, alpha)

    def found(lambdas: np.ndarray) -> np.ndarray:
        leaked: np.ndarray = leakage(torch.from_numpy(lambdas).to(p.device)).cpu().numpy()
        return leaked

    weights = torch.from_numpy(_largest(found, (len(p), p.shape[1] // 2), beta)).to(p.device)
    if pmfs.in_range:
        return weights
    # what _TINY hid is caught here, in log space
    public, to = pmfs.log_p[:, -1:], weights[..., None]
    mixed = [_blend(pmfs.log_p[:, j:-1:2], public, to) for j in (0, 1)]
    hidden = divergence(mixed[0], mixed[1], alpha) > beta * (1 + 1e-9) + 1e-12
    return torch.where(hidden, torch.zeros_like(weights), weights)


def _leakage(p: torch.Tensor, alpha: float) -> Leakage:
    """λ (n, k) to the D_α of equation 2. NaN and overflow count as infeasible."""
    first, second, base = p[:, 0:-1:2], p[:, 1:-1:2], p[:, -1:]

    def leakage(weight: torch.Tensor) -> torch.Tensor:
        p = torch.lerp(base, first, weight[..., None])
        q = torch.lerp(base, second, weight[..., None])
        moment = torch.div(p, q, out=q).pow_(alpha - 1).mul_(p).sum(dim=-1)
        return moment.log_().div_(alpha - 1)

    return leakage


def _leakage_of_order_2(p: torch.Tensor) -> Leakage:
    """The same for α = 2: D_2(P‖Q) = log(1 + Σ (p − q)²/q), and p − q = λ(h_π − h_π')."""
    first, second, base = p[:, 0:-1:2], p[:, 1:-1:2], p[:, -1:]
    squares = (first - second).square_()

    def leakage(weight: torch.Tensor) -> torch.Tensor:
        q = torch.lerp(base, second, weight[..., None])
        return torch.div(squares, q, out=q).sum(dim=-1).mul_(weight.square()).log1p_()

    return leakage


def _largest(
    leakage: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int], beta: float
) -> np.ndarray:
    """The largest λ on the grid with leakage(λ) ≤ β, which 0 always has; NaN counts as more.

    Numbers are few here, so NumPy, whose calls cost less.
    """
    with np.errstate(all="ignore"):  # a leakage of 0, NaN or ∞ gives no secant
        found = leakage(np.ones(shape))
        low = np.where(found <= beta, _GRID, 0.0)  # ≤ β here, and not at high; in steps
        high = low + np.where(low, 1.0, _GRID)
        x, y = np.zeros(shape), np.log(found / beta)  # log λ and log D_α/β, where last looked
        slope = np.full(shape, 2.0)
        for looked in count():
            if (high - low <= 1).all():
                return low / _GRID
            middle = np.floor((low + high) / 2)
            secant = x - y / slope if looked < _SECANTS else x * np.nan
            guess = np.where(np.isfinite(secant), np.floor(np.exp(secant) * _GRID), middle)
            guess = np.minimum(np.maximum(guess, low + 1), high - 1)
            found = leakage(guess / _GRID)
            fits = found <= beta
            low, high = np.where(fits, guess, low), np.where(fits, high, guess)
            last_x, last_y = x, y
            x, y = np.log(guess / _GRID), np.log(found / beta)
            steep = (y - last_y) / (x - last_x)
            slope = np.where((steep > _SLOPES[0]) & (steep < _SLOPES[1]), steep, slope)
    raise AssertionError


def _blend(log_p: torch.Tensor, log_q: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """log(λp + (1 − λ)q), safe at λ = 0 and λ = 1."""
    return torch.logaddexp(weight.log() + log_p, torch.log1p(-weight) + log_q)


def divergence(log_p: torch.Tensor, log_q: torch.Tensor, alpha: float) -> torch.Tensor:
    """D_α(P‖Q) = log E_Q[(P/Q)^α] / (α − 1) along the last axis, in nats, never below 0."""
    terms = alpha * log_p - (alpha - 1) * log_q
    terms = torch.where(log_p == -math.inf, log_p, terms)  # what P never says adds nothing
    moment = torch.logsumexp(terms, dim=-1)
    return (moment / (alpha - 1)).clamp_(min=0.0)
