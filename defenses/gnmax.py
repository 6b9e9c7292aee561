"""GNMax: every member votes for its likeliest token, and the largest noised count is released.

arXiv 1802.08908; as a baseline for text: arXiv 2201.00971, Appendix B.4. What is released is one
token per query. Its pmf is computed exactly and sampled from, which is the same as adding noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.language_model import LanguageModel
from audit.core.layers import ALL
from audit.core.model import ModelFolder
from audit.core.predictor import Access
from audit.core.release import Release
from audit.core.training import FineTuning, Trained, Training
from defenses import _checks, _ensemble, _local_votes, _votes
from defenses._mixing import Aside


@dataclass(frozen=True)
class GNMax(Defense):
    """Models trained on k disjoint parts vote for the next token; the noised winner is released.

    epsilon: of a session, in nats of D_α (unit: part; relation: replace).
    k: number of parts, at least 2; each trains one model and has one vote.
    alpha: order of the Rényi divergence, at least 1.01.
    budget: B, the queries a session answers; later ones meet the public model.
    noise_multiplier: σ, the noise on every count, in votes, instead of ε; with epsilon=none.
    train: which layers each part trains, "all" or "top:N".
    source: of noise and sampled tokens: "seed", or "system" for the operating system's entropy.
    """

    epsilon: float | None = 2.0
    k: int = 8
    alpha: float = 2.0
    budget: int = 1024
    noise_multiplier: float | None = None
    train: str = ALL
    source: str = "seed"

    def __post_init__(self) -> None:
        _checks.check_noise("gnmax", self.epsilon, self.noise_multiplier)
        _ensemble.check("gnmax", self)

    @property
    def sigma(self) -> float:
        """σ in votes: as given, or so that B queries cost ε: α/σ² = ε/B."""
        if self.epsilon is None:
            assert self.noise_multiplier is not None
            return self.noise_multiplier
        return math.sqrt(self.alpha / _ensemble.share(self.epsilon, self.budget))

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return _ensemble.trainings("gnmax", self, corpus, model, recipe, seed)

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        mechanism = NoisyVotes(self.sigma, self.alpha)
        return _ensemble.EnsembleRelease(
            self,
            mechanism,
            public,
            tuple(each.model for each in trained),
            relation="replace",
            also=("removed",),
            theorem="GNMax (arXiv 1802.08908, Proposition 8): α/σ² a query, B queries composed",
            conditions=(
                "a removed part is one vote less, and costs half: α/(2σ²) a query",
                f"noise N(0, σ²) with σ = {self.sigma:.6g} votes on every token's count; one token "
                "a query is released, nothing else of the counts; perplexity is measured by the "
                "evaluator, outside the guarantee",
            ),
        )


@dataclass(frozen=True)
class NoisyVotes:
    """argmax(votes + N(0, σ²)) as a pmf; alpha: the order of `divergence`."""

    sigma: float
    alpha: float
    access = Access.GENERATE
    reads_public = False

    @property
    def divergence(self) -> float:
        """α/σ², nats: a replaced part moves one vote, √2 in L2 (unit: part; relation: replace)."""
        return self.alpha / self.sigma**2

    def answer(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> torch.Tensor:
        """log of the winner's pmf, (n, V). The noise is integrated over, so no seed is needed."""
        return _votes.winning(_votes.votes(log_pmfs), self.sigma)

    def aside(self, log_pmfs: torch.Tensor) -> Aside:
        """What a vote costs on this data set, and the bounds of arXiv 2201.00971, Appendix B.4."""
        return Aside(
            local=_local_votes.divergences(log_pmfs, self.sigma, self.alpha),
            log_caps=_votes.log_caps(_votes.votes(log_pmfs), self.sigma),
        )
