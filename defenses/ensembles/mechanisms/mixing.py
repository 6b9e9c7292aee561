"""Computes Algorithm 2 of SubMix (arXiv 2201.00971), lines 6 to 19, for a batch of queries.

Symbols as in the paper: k parts, h_∅ the public model, h_π and h_π' the two members of a part,
λ_i the part's own mixing weight, β the target leakage, h the released mixture, h'_(−i) the mixture
without part i. Distributions are float64; divergences are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from audit.core.language_model import temper
from audit.core.predictor import Access
from defenses.ensembles.mechanism import Mixed
from defenses.ensembles.mechanisms.mixing_weights import Pmfs, divergence, mixing_weights

_IN_CACHE = 1 << 18  # float64 numbers of member pmfs mixed together: 2 MiB fit in the cache
_NEVER = -1e5  # a log-probability of practically zero


@dataclass(frozen=True)
class Mixing:
    """Algorithm 2 as a session's mechanism: pairs of members side by side, the public model last.

    alpha: order α. beta: β, nats. clip: c of `clip`, or None. temperature: T of the mixture.
    """

    alpha: float
    beta: float
    clip: float | None
    temperature: float
    access = Access.GENERATE
    reads_public = True

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Mix n queries of all members and the public model, (n, 2k + 1, V), nats; no noise."""
        size = len(log_pmfs) if log_pmfs.is_cuda else _IN_CACHE // log_pmfs.shape[1:].numel()
        pieces = [self._mix_some(some) for some in torch.split(log_pmfs, max(1, size))]
        log_h, lambdas, charges = map(torch.cat, zip(*pieces, strict=True))
        return Mixed(log_h, lambdas, charges)

    def _mix_some(self, log_pmfs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute log h (n, V), λ_i (n, k) and what each part is charged, (n, k), nats."""
        if self.clip is not None:
            members, public = log_pmfs[:, :-1], log_pmfs[:, -1:]
            log_pmfs = torch.cat([clip(members, public, self.clip), public], dim=1)
        pmfs = Pmfs.of(log_pmfs)
        lambdas = mixing_weights(pmfs, self.alpha, self.beta)
        shares = mixture_shares(lambdas)
        if pmfs.in_range and self.alpha == 2.0 and self.temperature == 1.0:
            mixtures = shares @ pmfs.p
            return mixtures[:, 0].log(), lambdas, _charges_of_order_2(mixtures)
        log_mixtures = temper(_log_mixtures(pmfs, shares), self.temperature)
        return log_mixtures[:, 0], lambdas, _charges(log_mixtures, self.alpha)


def mixture_shares(lambdas: torch.Tensor) -> torch.Tensor:
    """Compute the share of each member and h_∅ in h and in every h'_(−i): (n, k + 1, 2k + 1).

    This is lines 14 to 17 as one matrix. A mixture of some parts is λ* · mean h̄_i + (1 − λ*) h_∅,
    where λ* = mean λ_i, both over these parts, and h̄_i is the mean of a part's two members. No
    digits are lost: nothing is subtracted, and sums of λ_i, multiples of 2⁻³⁰, are exact.
    """
    n, parts = lambdas.shape
    taken = torch.ones(parts + 1, parts, dtype=lambdas.dtype, device=lambdas.device)
    taken[1:].fill_diagonal_(0)  # row 0: all parts; row i + 1: all but part i
    number = taken.sum(dim=1).clamp_(min=1)  # with one part only, h'_(−i) = h_∅
    total = lambdas @ taken.T  # Σ λ_i of each mixture, (n, k + 1)
    shares = lambdas.new_empty(n, parts + 1, 2 * parts + 1)
    each = (total / number.square() / 2)[..., None] * taken
    shares[..., :-1] = each.repeat_interleave(2, dim=-1)
    shares[..., -1] = (number - total) / number
    return shares


def _log_mixtures(pmfs: Pmfs, shares: torch.Tensor) -> torch.Tensor:
    """Compute log of h and every h'_(−i), (n, k + 1, V); in log space if a pmf underflows."""
    if pmfs.in_range:
        return (shares @ pmfs.p).log_()
    each = shares.log()[..., None].unbind(1)
    return torch.stack([torch.logsumexp(pmfs.log_p + share, dim=1) for share in each], dim=1)


def _charges(log_mixtures: torch.Tensor, alpha: float) -> torch.Tensor:
    """Compute max{D_α(h‖h'_(−i)), D_α(h'_(−i)‖h)}, (n, k), nats."""
    log_h, without = log_mixtures[:, :1], log_mixtures[:, 1:]
    forth, back = divergence(log_h, without, alpha), divergence(without, log_h, alpha)
    return torch.maximum(forth, back)


def _charges_of_order_2(mixtures: torch.Tensor) -> torch.Tensor:
    """Compute `_charges` for α = 2 by D_2(P‖Q) = log(1 + Σ (p − q)²/q), positive mixtures."""
    h, without = mixtures[:, :1], mixtures[:, 1:]
    squares = (h - without).square_()
    forth, back = (squares / without).sum(dim=-1), squares.div_(h).sum(dim=-1)
    return torch.maximum(forth, back).log1p_()


def clip(log_p: torch.Tensor, base: torch.Tensor, bound: float) -> torch.Tensor:
    """Bring pmfs into [e^−c, e^c]·h_∅ as clip(s·p), where s makes the sum 1.

    log_p: shape (n, m, V). base: log h_∅, (n, 1, V). The sum grows with s, so log s is bisected.
    """
    log_p = log_p.clamp(min=_NEVER)  # brings zeros into the band, too
    floor, ceiling = base - bound, base + bound
    gap = (base - log_p).masked_fill(base == -math.inf, 0.0)  # excluded tokens stay so
    low, high = gap.amin(dim=-1) - bound, gap.amax(dim=-1) + bound

    def clipped(shift: torch.Tensor) -> torch.Tensor:
        return torch.minimum(torch.maximum(log_p + shift[..., None], floor), ceiling)

    for _ in range(80):
        middle = (low + high) / 2
        over = torch.logsumexp(clipped(middle), dim=-1) > 0
        low, high = torch.where(over, low, middle), torch.where(over, middle, high)
    return torch.log_softmax(clipped(low), dim=-1)
