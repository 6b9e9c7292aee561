"""Algorithm 2 of SubMix (arXiv 2201.00971), lines 6 to 19, for a batch of queries at once.

Symbols as in the paper: k parts, h_∅ the public model, h_π and h_π' the two members of a part,
h̄_i their mean, λ_i the part's own mixing weight, β the target leakage, h the released mixture,
h'_(−i) the mixture without part i. Distributions are float64; divergences are in nats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from audit.language_model import temper

if TYPE_CHECKING:
    import torch

_TINY = 1e-300  # keeps 0/0 out of ratios of probabilities that underflow
_HALVINGS = 30  # λ is found to 2⁻³⁰


@dataclass(frozen=True)
class Mixed:
    """n queries, mixed. Nothing here has been released or charged yet.

    log_h: shape (n, V), nats: the distribution an answer is sampled from.
    lambdas: shape (n, k): λ_i of each part.
    charges: shape (n, k), nats: max{D_α(h‖h'_(−i)), D_α(h'_(−i)‖h)} of each part.
    """

    log_h: torch.Tensor
    lambdas: torch.Tensor
    charges: torch.Tensor


def mix(
    members: torch.Tensor, public: torch.Tensor, alpha: float, beta: float, temperature: float
) -> Mixed:
    """Mixes `members`, log-pmfs of shape (n, k, 2, V), with `public`, log-pmfs (n, V)."""
    import torch

    parts = members.shape[1]
    lambdas = mixing_weights(members, public, alpha, beta)
    means = torch.logsumexp(members, dim=2) - math.log(2)  # log h̄_i, (n, k, V)
    log_h = temper(_mixture(means, lambdas, public), temperature)
    charges = []
    for i in range(parts):
        others = [j for j in range(parts) if j != i]
        without = public if not others else _mixture(means[:, others], lambdas[:, others], public)
        without = temper(without, temperature)
        forth, back = divergence(log_h, without, alpha), divergence(without, log_h, alpha)
        charges.append(torch.maximum(forth, back))
    return Mixed(log_h, lambdas, torch.stack(charges, dim=1))


def pairwise(members: torch.Tensor) -> torch.Tensor:
    """(n, 2k, V) as (n, k, 2, V): the two members of a part stand side by side."""
    return members.reshape(members.shape[0], -1, 2, members.shape[-1])


def _mixture(means: torch.Tensor, lambdas: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
    """log(λ* · mean h̄_i + (1 − λ*) h_∅) with λ* = mean λ_i over the parts given, (n, V)."""
    import torch

    weight = lambdas.mean(dim=1, keepdim=True)
    ensemble = torch.logsumexp(means, dim=1) - math.log(means.shape[1])
    return _blend(ensemble, public, weight)


def _blend(log_p: torch.Tensor, log_q: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """log(λp + (1 − λ)q), safe at λ = 0 and λ = 1."""
    import torch

    return torch.logaddexp(weight.log() + log_p, torch.log1p(-weight) + log_q)


def mixing_weights(
    members: torch.Tensor, public: torch.Tensor, alpha: float, beta: float
) -> torch.Tensor:
    """Equation 2: λ_i = max{λ ∈ [0, 1] : D_α(λh_π+(1−λ)h_∅ ‖ λh_π'+(1−λ)h_∅) ≤ β}, (n, k).

    D_α grows with λ, so λ is bisected, for all parts and queries together, and the feasible end is
    returned: the divergence at the answer never exceeds β.
    """
    import torch

    first, second = members[:, :, 0].exp(), members[:, :, 1].exp()
    base = public.exp()[:, None, :]

    def feasible(weight: torch.Tensor) -> torch.Tensor:
        p = torch.lerp(base, first, weight[..., None]).add_(_TINY)
        q = torch.lerp(base, second, weight[..., None]).add_(_TINY)
        moment = (p * (p / q).pow_(alpha - 1)).sum(dim=-1)
        return moment.log() / (alpha - 1) <= beta  # NaN and overflow count as infeasible

    low = torch.zeros(members.shape[:2], dtype=public.dtype, device=public.device)
    high = torch.ones_like(low)
    whole = feasible(high)
    if bool(whole.all()):
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = feasible(middle)
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    weights = torch.where(whole, torch.ones_like(low), low)
    # the search adds _TINY to every probability; what it hid is caught here, in log space
    mixed = [_blend(members[:, :, j], public[:, None], weights[..., None]) for j in (0, 1)]
    hidden = divergence(mixed[0], mixed[1], alpha) > beta * (1 + 1e-9) + 1e-12
    return torch.where(hidden, torch.zeros_like(weights), weights)


def divergence(log_p: torch.Tensor, log_q: torch.Tensor, alpha: float) -> torch.Tensor:
    """D_α(P‖Q) = log E_Q[(P/Q)^α] / (α − 1) along the last axis, in nats, never below 0."""
    import torch

    terms = alpha * log_p - (alpha - 1) * log_q
    terms = torch.where(log_p == -math.inf, log_p, terms)  # what P never says adds nothing
    moment = torch.logsumexp(terms, dim=-1)
    return (moment / (alpha - 1)).clamp_(min=0.0)


def clip(log_p: torch.Tensor, public: torch.Tensor, bound: float) -> torch.Tensor:
    """Brings pmfs into [e^−c, e^c]·h_∅ as clip(s·p), with s such that it sums to 1.

    log_p: shape (n, k, 2, V); public: (n, V). The sum grows with s, so log s is bisected.
    """
    import torch

    base = public[:, None, None, :]
    floor, ceiling = base - bound, base + bound
    gap = base - log_p
    low, high = gap.amin(dim=-1) - bound, gap.amax(dim=-1) + bound

    def clipped(shift: torch.Tensor) -> torch.Tensor:
        return torch.minimum(torch.maximum(log_p + shift[..., None], floor), ceiling)

    for _ in range(80):
        middle = (low + high) / 2
        over = torch.logsumexp(clipped(middle), dim=-1) > 0
        low, high = torch.where(over, low, middle), torch.where(over, middle, high)
    return torch.log_softmax(clipped(low), dim=-1)
