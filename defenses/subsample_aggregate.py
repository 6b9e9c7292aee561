"""Subsample-and-aggregate: the mean of an ensemble's predictions, with Laplace noise.

arXiv 2201.00971, Appendix B.3. Its sensitivity is 2/k there where the paper says 1/k: a part moves
the mean by 1/k upwards and by 1/k downwards. What is released is the noised distribution itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.ensemble import log_mean
from audit.core.language_model import LanguageModel
from audit.core.layers import ALL
from audit.core.model import ModelFolder
from audit.core.predictor import Access
from audit.core.release import Release
from audit.core.training import FineTuning, Trained, Training
from defenses import _checks, _ensemble, _laplace
from defenses._mixing import Aside


@dataclass(frozen=True)
class SubsampleAggregate(Defense):
    """The mean prediction of models trained on k disjoint parts, noised for every query.

    epsilon: of a session, in nats of D_α (unit: part; relation: replace, and removed).
    k: number of parts, at least 2; each trains one model.
    alpha: order of the Rényi divergence, at least 1.01.
    budget: B, the queries a session answers; later ones meet the public model.
    floor: what a noised probability is raised to, at least, in scales of the noise; public.
    train: which layers each part trains, "all" or "top:N".
    source: of noise and sampled tokens: "seed", or "system" for the operating system's entropy.
    """

    epsilon: float = 2.0
    k: int = 8
    alpha: float = 2.0
    budget: int = 1024
    floor: float = 1.0
    train: str = ALL
    source: str = "seed"

    def __post_init__(self) -> None:
        _checks.check_positive(self, "subsample_aggregate", "epsilon", "floor")
        _ensemble.check("subsample_aggregate", self)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return _ensemble.trainings("subsample_aggregate", self, corpus, model, recipe, seed)

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        scale = _laplace.scale_for(_ensemble.share(self.epsilon, self.budget), self.k, self.alpha)
        return _ensemble.EnsembleRelease(
            self,
            NoisyMean(scale, self.floor * scale, self.alpha, self.k),
            public,
            tuple(each.model for each in trained),
            relation="replace",
            also=("removed",),
            theorem="subsample-and-aggregate (arXiv 2201.00971, Appendix B.3) by Laplace noise "
            "(arXiv 1702.07476): 2·D_α(Laplace, shift 1/k) a query, B queries composed",
            conditions=(
                "the same ε holds when a part is removed and the mean is that of the others",
                f"Laplace noise of scale {scale:.6g} on every token's mean probability, clamped to "
                f"{self.floor * scale:.6g} at least, renormalised: the whole distribution is "
                "released, with fresh noise for each query",
                "noise is drawn in float64, not on the real line",
            ),
        )


@dataclass(frozen=True)
class NoisyMean:
    """The mean of the members' pmfs + Laplace noise of this scale, clamped, renormalised.

    alpha, parts: α, and the k that `divergence` is worked out for.
    """

    scale: float
    floor: float
    alpha: float
    parts: int
    access = Access.DISTRIBUTION
    reads_public = False

    @property
    def divergence(self) -> float:
        """D_α of one query, nats, at most (unit: part; relation: replace, and removed)."""
        return _laplace.mean_divergence(self.scale, self.parts, self.alpha)

    def answer(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> torch.Tensor:
        """log of the noised means, (n, V): what is released."""
        return _laplace.noised(log_mean(log_pmfs).exp(), self.scale, self.floor, seeds)

    def aside(self, log_pmfs: torch.Tensor) -> Aside:
        """Nothing."""
        return Aside()
