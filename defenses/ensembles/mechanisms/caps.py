"""Caps on how far one part moves a mixture with the public model, and what that costs the part.

With k parts and weights λ_i ≤ w ≤ 1, an answer is drawn from h = u + (1/k)·Σ λ_i (h_i − u),
where u is the public model's pmf and h_i the member's of part i. Let f = 1 − w(k−1)/k. With part i
emptied (its member is u), the remaining parts leave at least the share f to u. So for one pmf R
  h = f·T + (1−f)·R  and  h^(i) = f·u + (1−f)·R,  with T = u + (λ_i/(kf))·(h_i − u),
and by joint convexity both directions cost part i at most
  c_i(λ) = log(1 + f·(e^{(α−1)γ} − 1))/(α−1),  γ = max{D_α(T‖u), D_α(u‖T)},
whatever the remaining members say. c_i depends on part i and on u alone, and so may λ_i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from defenses.ensembles.mechanisms.mixing_weights import largest

Excess = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Caps:
    """Both caps of a part: its weight, and what a query costs it.

    weight: w. parts: k. alpha: order α. charge: bound b on c_i, nats.
    """

    weight: float
    parts: int
    alpha: float
    charge: float

    @property
    def floor(self) -> float:
        """Return f, the least share of the public model in what the remaining parts leave."""
        return self._kf / self.parts

    @property
    def step(self) -> float:
        """Return w/(kf) ≤ 1, the largest share of the member in T."""
        return self.weight / self._kf

    @property
    def _kf(self) -> float:
        return self.parts - self.weight * (self.parts - 1)  # at least 1 also in floating point

    def weights(self, members: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
        """Find λ_i = max{λ ≤ w: c_i(λ) ≤ b} for pmfs (n, k, V) and (n, V): (n, k).

        The feasible end of the search is returned. A member that gives mass to a token that u
        excludes has λ_i = 0.
        """
        cost = self._cost(members, public)

        def of(shares: np.ndarray) -> np.ndarray:
            own: np.ndarray = cost(torch.from_numpy(shares).to(members.device)).cpu().numpy()
            return own

        shares = largest(of, (members.shape[0], members.shape[1]), self.charge)
        return torch.from_numpy(shares).to(members.device) * self.weight

    def costs(
        self, members: torch.Tensor, public: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Compute c_i(λ_i), nats, (n, k); a silent part costs nothing."""
        own = self._cost(members, public)(weights / self.weight)
        return torch.where(weights > 0, own, 0.0)

    def _cost(self, members: torch.Tensor, public: torch.Tensor) -> Excess:
        """Return the function from λ/w (n, k) to c_i, nats; NaN where T or u excludes a token."""
        base = public[:, None]
        ratios = (members - base).div_(base)  # of h_i to u, less 1
        ratios[(members == 0) & (base == 0)] = 0
        excess = (
            _excess_of_order_2(base, ratios)
            if self.alpha == 2.0
            else _excess(base, ratios, self.alpha)
        )

        def cost(shares: torch.Tensor) -> torch.Tensor:
            return (self.floor * excess(shares * self.step)).log1p().div(self.alpha - 1)

        return cost


def _excess(base: torch.Tensor, ratios: torch.Tensor, alpha: float) -> Excess:
    """Return the function from s (n, k) to max{E_u (1+sr)^α, E_u (1+sr)^(1−α)} − 1.

    Each is Σ u·((1+x)^p − 1 − p·x) for x = s·r, because E_u r = 0. No term is negative.
    """

    def excess(step: torch.Tensor) -> torch.Tensor:
        x = ratios * step[..., None]
        logs = x.log1p()
        both = [
            ((logs * power).expm1_() - x * power).mul_(base).sum(dim=-1)
            for power in (alpha, 1 - alpha)
        ]
        return torch.maximum(*both)

    return excess


def _excess_of_order_2(base: torch.Tensor, ratios: torch.Tensor) -> Excess:
    """Return `_excess` for α = 2: s²·max{Σ u r², Σ u r²/(1+sr)}."""
    squares = base * ratios * ratios
    forth = squares.sum(dim=-1)

    def excess(step: torch.Tensor) -> torch.Tensor:
        back = (squares / (ratios * step[..., None]).add_(1)).sum(dim=-1)
        return torch.maximum(forth, back) * step * step

    return excess
