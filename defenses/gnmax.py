"""GNMax: members vote for their likeliest token, and the winner of the noised counts is released.

Source: arXiv 1802.08908; as a baseline for text: arXiv 2201.00971, Appendix B.4. A query releases
one token. The pmf of the winner is computed exactly and sampled from, which equals adding noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.layers import ALL, LAYERS
from audit.core.predictor import Access
from audit.core.rules import POSITIVE, at_least, one_of
from audit.core.terms import Relation
from defenses.ensembles import ORDER, ByData, Constant, EnsembleDefense, Mixed, even_share
from defenses.ensembles.mechanisms import votes
from defenses.training import checks


@dataclass(frozen=True)
class GNMax(EnsembleDefense):
    """Lets models of k disjoint parts vote for each token, and releases the noised winner.

    epsilon: ε of a session in nats of D_α, per part under replace; above 0, or none with
        noise_multiplier.
    k: number of disjoint parts of the users, each training one model with one vote; at least 2.
    alpha: order α of the Rényi divergence; at least 1.01.
    budget: number of queries B that a session answers before the public model takes over; at
        least 1.
    noise_multiplier: standard deviation σ of the noise on every count, in votes, instead of ε;
        above 0, with epsilon=none; beside ε, with charge=data.
    charge: what a query is charged: "worst", its cost on any data, or "data", its cost on this data
        set, which is private, as the papers do: the session stops when a part has spent ε, and ε is
        data-dependent; with noise_multiplier, fixed before the first query.
    train: layers that each part trains: "all" that the recipe trains, or "top:N" for the last N
        blocks.
    source: source of noise and sampled tokens: "seed" (reproducible) or "system" (the operating
        system's entropy).
    """

    epsilon: Annotated[float | None, POSITIVE] = 2.0
    k: Annotated[int, at_least(2)] = 8
    alpha: Annotated[float, ORDER] = 2.0
    budget: Annotated[int, at_least(1)] = 1024
    noise_multiplier: Annotated[float | None, POSITIVE] = None
    charge: Annotated[str, one_of("worst", "data")] = "worst"
    train: Annotated[str, LAYERS] = ALL
    source: Annotated[str, one_of("seed", "system")] = "seed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.charge == "worst":
            checks.check_noise("gnmax", self.epsilon, self.noise_multiplier)
        elif self.epsilon is None or self.noise_multiplier is None:
            raise UsageError(
                "gnmax: charge=data spends epsilon by what votes cost on this data set, which "
                "names no noise; give both epsilon and noise_multiplier"
            )

    @property
    def sigma(self) -> float:
        """Return σ in votes: the parameter, or the σ at which B queries cost ε (α/σ² = ε/B)."""
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        assert self.epsilon is not None
        return math.sqrt(self.alpha / even_share(self.epsilon, self.budget))

    @property
    def mechanism(self) -> NoisyVotes:
        """Return the votes with noise σ."""
        return NoisyVotes(self.sigma, self.alpha)

    @property
    def account(self) -> Constant | ByData:
        """Return the account that charges the worst case, or what votes cost on this data set."""
        worst = self.mechanism.divergence
        if self.charge == "worst":
            return Constant(worst, self.budget)
        assert self.epsilon is not None
        return ByData(self.epsilon, self.budget, worst)

    @property
    def guarantee(self) -> Guarantee:
        by_data = self.charge == "data"
        return self.per_part(
            relation=Relation.REPLACE,
            also=() if by_data else (Relation.REMOVED,),
            theorem=_BY_DATA if by_data else _WORST,
            conditions=(
                *(() if by_data else (_REMOVED,)),
                f"noise N(0, σ²) with σ = {self.sigma:.6g} votes is added to every token's count; "
                "each query releases one token and nothing else; the auditor alone reads whole "
                "distributions, for perplexity, which the guarantee does not cover",
            ),
        )


_WORST = "GNMax (arXiv 1802.08908, Proposition 8): α/σ² a query, B queries composed"
_REMOVED = "removing a part removes one vote and costs half: α/(2σ²) a query"
_BY_DATA = (
    "GNMax (arXiv 1802.08908) as arXiv 2201.00971 accounts it, but in both directions: for every "
    "part, the largest D_α of the answered queries that another vote of it could make sum to at "
    "most ε; Theorem 6 there bounds one direction"
)


@dataclass(frozen=True)
class NoisyVotes:
    """Computes the pmf of argmax(votes + N(0, σ²)). alpha: order of `divergence`."""

    sigma: float
    alpha: float
    access = Access.GENERATE
    reads_public = False

    @property
    def divergence(self) -> float:
        """Return α/σ², nats, per part under replace: replacing a part moves one vote, √2 in L2."""
        return self.alpha / self.sigma**2

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Compute log of the winner's pmf, (n, V), nats, by integrating over the noise; also the
        cost of a vote on this data set, and the paper's bounds on the pmf."""
        counts = votes.votes(log_pmfs)
        return Mixed(
            votes.winning(counts, self.sigma),
            costs=votes.divergences(log_pmfs, self.sigma, self.alpha),
            log_caps=votes.log_caps(counts, self.sigma),
        )
