"""Subsample-and-aggregate: the mean of an ensemble's predictions, with Laplace noise.

Source: arXiv 2201.00971, Appendix B.3. The L1 sensitivity is 2/k, not 1/k as in the paper: a part
moves the mean by 1/k upwards and by 1/k downwards. Each query releases the noised distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from audit.core.ensemble import log_mean
from audit.core.guarantee import Guarantee
from audit.core.law import LaplaceNoise, Law
from audit.core.layers import ALL, LAYERS
from audit.core.predictor import Access
from audit.core.rules import POSITIVE, at_least, one_of
from audit.core.terms import Relation
from defenses.ensembles import ORDER, Constant, EnsembleDefense, Mixed, even_share
from defenses.ensembles.mechanisms import laplace


@dataclass(frozen=True)
class SubsampleAggregate(EnsembleDefense):
    """Averages the predictions of models of k disjoint parts, with fresh noise for every query.

    epsilon: ε of a session in nats of D_α, per part under replace and removed; above 0.
    k: number of disjoint parts of the users, each training one model; at least 2.
    alpha: order α of the Rényi divergence; at least 1.01.
    budget: number of queries B that a session answers before the public model takes over; at
        least 1.
    floor: least noised probability, in units of the noise scale; lower ones are raised; above 0.
    train: layers that each part trains: "all" that the recipe trains, or "top:N" for the last N
        blocks.
    source: source of noise and sampled tokens: "seed" (reproducible) or "system" (the operating
        system's entropy).
    """

    epsilon: Annotated[float, POSITIVE] = 2.0
    k: Annotated[int, at_least(2)] = 8
    alpha: Annotated[float, ORDER] = 2.0
    budget: Annotated[int, at_least(1)] = 1024
    floor: Annotated[float, POSITIVE] = 1.0
    train: Annotated[str, LAYERS] = ALL
    source: Annotated[str, one_of("seed", "system")] = "seed"

    @property
    def mechanism(self) -> NoisyMean:
        """Find the least noise with which B queries cost at most ε."""
        scale = laplace.scale_for(even_share(self.epsilon, self.budget), self.k, self.alpha)
        return NoisyMean(scale, self.floor * scale, self.alpha, self.k)

    @property
    def account(self) -> Constant:
        return Constant(self.mechanism.divergence, self.budget)

    @property
    def guarantee(self) -> Guarantee:
        mechanism = self.mechanism
        return self.per_part(
            relation=Relation.REPLACE,
            also=(Relation.REMOVED,),
            theorem="subsample-and-aggregate (arXiv 2201.00971, Appendix B.3) by Laplace noise "
            "(arXiv 1702.07476): 2·D_α(Laplace, shift 1/k) a query, B queries composed",
            conditions=(
                "the same ε holds when a part is removed and the mean is over the remaining parts",
                f"Laplace noise of scale {mechanism.scale:.6g} is added to every token's mean "
                f"probability, which is raised to at least {mechanism.floor:.6g} and renormalised; "
                "the whole distribution is released, with fresh noise for each query",
                "noise is drawn in float64, not on the real line",
            ),
        )


@dataclass(frozen=True)
class NoisyMean:
    """Adds Laplace noise of this scale to the members' mean pmf, then clamps and renormalises.

    alpha, parts: α and k of `divergence`.
    """

    scale: float
    floor: float
    alpha: float
    parts: int
    access = Access.DISTRIBUTION
    reads_public = False

    @property
    def divergence(self) -> float:
        """Bound D_α of one query, nats, per part under replace and removed."""
        return laplace.mean_divergence(self.scale, self.parts, self.alpha)

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Compute log of the noised means, (n, V), which are released, and their law."""
        log_means = log_mean(log_pmfs)
        law = Law(log_means.cpu().numpy(), LaplaceNoise(self.scale, self.floor))
        return Mixed(laplace.noised(log_means.exp(), self.scale, self.floor, seeds), law=law)
