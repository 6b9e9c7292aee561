"""PMixed: members close to the public model, drawn anew for each query, and one sampled token.

After arXiv 2403.15638, with a sound accounting. The paper bounds pairs of members, which needs all
Rényi orders, but enforces one. Here members are clipped to [e^−c, e^c] × the public model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from audit.core.guarantee import Guarantee
from audit.core.layers import ALL, LAYERS
from audit.core.predictor import Access
from audit.core.rules import POSITIVE, SHARE, at_least, one_of
from audit.core.terms import Relation
from defenses.ensembles import ONE_TOKEN, ORDER, Constant, EnsembleDefense, Mixed, even_share
from defenses.ensembles.mechanisms import coins
from defenses.ensembles.mechanisms.mixing import clip


@dataclass(frozen=True)
class PMixed(EnsembleDefense):
    """Clips models of k disjoint parts to the public model, and averages a random subset a query.

    epsilon: ε of a session in nats of D_α, per part under removed; above 0.
    k: number of disjoint parts of the users, each training one model; at least 2.
    alpha: order α of the Rényi divergence; at least 1.01.
    budget: number of queries B that a session answers before the public model takes over; at
        least 1.
    q: probability that a member joins a query; default 1/k; above 0 and at most 1.
    train: layers that each part trains: "all" that the recipe trains, or "top:N" for the last N
        blocks.
    source: source of noise and sampled tokens: "seed" (reproducible) or "system" (the operating
        system's entropy).
    """

    epsilon: Annotated[float, POSITIVE] = 2.0
    k: Annotated[int, at_least(2)] = 8
    alpha: Annotated[float, ORDER] = 2.0
    budget: Annotated[int, at_least(1)] = 1024
    q: Annotated[float | None, SHARE] = None
    train: Annotated[str, LAYERS] = ALL
    source: Annotated[str, one_of("seed", "system")] = "seed"

    @property
    def mechanism(self) -> ClippedMean:
        """Find the widest band in which B queries cost at most ε."""
        coin = 1 / self.k if self.q is None else self.q
        share = even_share(self.epsilon, self.budget)
        bound = coins.bound_for(share, coin, self.k, self.alpha)
        return ClippedMean(bound, coin, self.alpha, self.k)

    @property
    def account(self) -> Constant:
        return Constant(self.mechanism.divergence, self.budget)

    @property
    def guarantee(self) -> Guarantee:
        mechanism = self.mechanism
        replaced = coins.replaced(mechanism.bound, mechanism.coin, self.k, self.alpha)
        return self.per_part(
            relation=Relation.REMOVED,
            theorem="PMixed (after arXiv 2403.15638), derived: the largest D_α that members within "
            "the band can have, over the coins, B queries composed",
            conditions=(
                f"replacing a part costs more: at most {self.budget * replaced:.4g} nats for all "
                "queries",
                f"members are clipped to [e^−c, e^c] × public with c = {mechanism.bound:.6g}, and "
                f"each joins a query with probability {mechanism.coin:.6g}; if none joins, the "
                "public model answers",
                ONE_TOKEN,
            ),
        )


@dataclass(frozen=True)
class ClippedMean:
    """Clips members to [e^−c, e^c]·h_∅ and averages over the coins q by which they join.

    bound: c. coin: q. alpha, parts: α and k of `divergence`.
    """

    bound: float
    coin: float
    alpha: float
    parts: int
    access = Access.GENERATE
    reads_public = True

    @property
    def divergence(self) -> float:
        """Bound D_α of one query, nats, per part under removed."""
        return coins.removed(self.bound, self.coin, self.parts, self.alpha)

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Compute log of the token's pmf over the coins, (n, V); the last model is public."""
        near = clip(log_pmfs[:, :-1], log_pmfs[:, -1:], self.bound)
        return Mixed(coins.joined(near, log_pmfs[:, -1], self.coin))
