"""PMixed: members near the public model, drawn anew for each query, and one sampled token.

After arXiv 2403.15638, with a sound accounting: there a bound between pairs of members needs all
Rényi orders and is enforced at one. Here members are clipped to [e^−c, e^c] × the public model.
"""

from __future__ import annotations

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
from defenses import _checks, _coins, _ensemble
from defenses._mixing import Aside, clip


@dataclass(frozen=True)
class PMixed(Defense):
    """Models of k disjoint parts, clipped to the public model; each query draws some by coins.

    epsilon: of a session, in nats of D_α (unit: part; relation: removed).
    k: number of parts, at least 2; each trains one model.
    alpha: order of the Rényi divergence, at least 1.01.
    budget: B, the queries a session answers; later ones meet the public model.
    q: chance of each member to join a query, above 0 and at most 1; 1/k unless given.
    train: which layers each part trains, "all" or "top:N".
    source: of noise and sampled tokens: "seed", or "system" for the operating system's entropy.
    """

    epsilon: float = 2.0
    k: int = 8
    alpha: float = 2.0
    budget: int = 1024
    q: float | None = None
    train: str = ALL
    source: str = "seed"

    def __post_init__(self) -> None:
        _checks.check_positive(self, "pmixed", "epsilon")
        _ensemble.check("pmixed", self)
        if self.q is not None and not 0 < self.q <= 1:
            raise _checks.refused("pmixed", self.q, "q", "above 0 and at most 1")

    @property
    def mechanism(self) -> ClippedMean:
        """The widest band in which B queries cost ε."""
        coin = 1 / self.k if self.q is None else self.q
        share = _ensemble.share(self.epsilon, self.budget)
        bound = _coins.bound_for(share, coin, self.k, self.alpha)
        return ClippedMean(bound, coin, self.alpha, self.k)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return _ensemble.trainings("pmixed", self, corpus, model, recipe, seed)

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        mechanism = self.mechanism
        replaced = _coins.replaced(mechanism.bound, mechanism.coin, self.k, self.alpha)
        return _ensemble.EnsembleRelease(
            self,
            mechanism,
            public,
            tuple(each.model for each in trained),
            relation="removed",
            theorem="PMixed (after arXiv 2403.15638), derived: the largest D_α that members within "
            "the band can have, over the coins, B queries composed",
            conditions=(
                f"a replaced part costs more: at most {self.budget * replaced:.4g} for all queries",
                f"members are clipped to [e^−c, e^c] × public with c = {mechanism.bound:.6g}, and "
                f"each joins a query with probability {mechanism.coin:.6g}; none: the public model",
                "what is released is one sampled token a query; perplexity is measured by the "
                "evaluator, outside the guarantee",
            ),
        )


@dataclass(frozen=True)
class ClippedMean:
    """Members within [e^−c, e^c]·h_∅, each joining by a coin q, as one pmf over the coins.

    bound: c. coin: q. alpha, parts: α, and the k that `divergence` is worked out for.
    """

    bound: float
    coin: float
    alpha: float
    parts: int
    access = Access.GENERATE
    reads_public = True

    @property
    def divergence(self) -> float:
        """D_α of one query, nats, at most (unit: part; relation: removed)."""
        return _coins.removed(self.bound, self.coin, self.parts, self.alpha)

    def answer(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> torch.Tensor:
        """log of the token's pmf over the coins, (n, V); the public model stands last."""
        members, public = log_pmfs[:, :-1], log_pmfs[:, -1]
        near = clip(members[:, :, None], public, self.bound)[:, :, 0]
        return _coins.joined(near, public, self.coin)

    def aside(self, log_pmfs: torch.Tensor) -> Aside:
        """Nothing."""
        return Aside()
