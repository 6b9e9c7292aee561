"""SubMix: private next-token prediction by an ensemble that mixes itself into the public model.

arXiv 2201.00971, Algorithms 1 and 2. What is released is one sampled token per query; every part
has its own ledger; a query is charged before it is answered; STOP is for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.ensemble import Ensemble, Mean
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.language_model import LanguageModel, Tempered
from audit.core.layers import ALL
from audit.core.ledger import Ledger
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed, stream
from audit.core.release import Journal, ModelRelease, Release
from audit.core.training import FineTuning, Trained, Training
from audit.models.ensembles.batching import joint
from defenses._checks import check_layers, check_positive
from defenses._ensemble import check, said, secret, texts_by_user
from defenses._ensemble_session import EnsembleSession, Service
from defenses._mixing import Mixing


@dataclass(frozen=True)
class SubMix(Defense):
    """An ensemble on k disjoint parts; each prediction is mixed with the public model's.

    epsilon: budget of every part, in nats of D_α (unit: part; relation: removed).
    k: number of parts, at least 2; each part trains two models, on a half of its users each.
    alpha: order of the Rényi divergence, at least 1.01.
    budget: B, the queries a session answers at most; later ones meet the public model.
    beta: target leakage of a query, in nats; ε/B unless given. Fixed before the first query.
    clip: c, brings every member's pmf into [e^−c, e^c]·h_∅; off unless given.
    temperature: T of the released samples; the tempered distributions are what is charged.
    train: which layers members fine-tune: "all" that the recipe trains, or "top:N" for the last N
        blocks; then all members and the public model share what is below, and a query costs less.
    source: of the sampled tokens: "seed", or "system" for the operating system's entropy.
    """

    epsilon: float = 2.0
    k: int = 8
    alpha: float = 2.0
    budget: int = 1024
    beta: float | None = None
    clip: float | None = None
    temperature: float = 1.0
    train: str = ALL
    source: str = "seed"

    def __post_init__(self) -> None:
        check_positive(self, "submix", "epsilon")
        check("submix", self)
        check_positive(self, "submix", "beta", "clip", "temperature")

    @property
    def leakage(self) -> float:
        """β in nats: as given, or ε/B (the paper's Appendix B.1)."""
        return self.epsilon / self.budget if self.beta is None else self.beta

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        """Algorithm 1: a random k-partition of the users, each part halved by user."""
        check_layers("submix", self.train, model)
        texts = texts_by_user("submix", self.k, corpus)
        drawn = halves(tuple(texts), self.k, stream(seed, "submix", "partition"))
        return tuple(
            Training(
                label=f"submix part {i // 2 + 1}/{self.k}, half {i % 2 + 1}",
                texts=tuple(text for user in half for text in texts[user]),
                method=recipe if self.train == ALL else replace(recipe, layers=self.train),
                seed=derived_seed(seed, "submix", "member", i),
            )
            for i, half in enumerate(drawn)
        )

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        models = [each.model for each in trained]
        pairs = tuple((models[i], models[i + 1]) for i in range(0, len(models), 2))
        return SubMixRelease(self, public, pairs)


def halves(users: Sequence[str], k: int, generator: np.random.Generator) -> list[list[str]]:
    """2k lists of users: both halves of part 1, both of part 2, …; sizes differ by one at most."""
    shuffled = [users[int(i)] for i in generator.permutation(len(users))]
    parts = [shuffled[i::k] for i in range(k)]
    return [half for part in parts for half in (part[0::2], part[1::2])]


@dataclass(frozen=True)
class SubMixRelease(Release):
    """The prediction service: k pairs of members and the public model."""

    defense: SubMix
    public: LanguageModel
    pairs: tuple[tuple[LanguageModel, LanguageModel], ...]

    @property
    def _members(self) -> tuple[LanguageModel, ...]:
        return tuple(member for pair in self.pairs for member in pair)

    @cached_property
    def ensemble(self) -> Ensemble:
        """All members, pair by pair, and after them the public model."""
        return joint((*self._members, self.public))

    @property
    def guarantee(self) -> Guarantee:
        d = self.defense
        conditions = [
            "holds for this data set, this partition of the users and this run's own STOP",
            "the stopping time of the run without a part is not charged: Proposition C.3 "
            "(+ log CB) and Theorem C.1 (user level) are published, unproved, and not claimed",
            "what is released is one sampled token a query; perplexity is measured by the "
            "evaluator, outside the guarantee",
            "a secret that several parts hold is protected less, one that all hold not at all",
            f"β = {d.leakage:.6g} nats a query, fixed before the first query",
            said(d.source),
            f"each session has the full budget; sessions of one release add up ({d.budget} queries "
            "each)",
        ]
        if d.clip is not None:
            conditions.append(f"members are clipped to [e^−{d.clip:g}, e^{d.clip:g}] × public")
        if d.temperature != 1.0:
            conditions.append(f"sampled, and charged, at temperature {d.temperature:g}")
        return Guarantee(
            epsilon=d.epsilon,
            alpha=d.alpha,
            unit="part",
            relation="removed",
            release="predictions",
            basis="data-dependent",
            theorem="SubMix (arXiv 2201.00971), Algorithm 2: for every part, the charged Rényi "
            "divergences of the answered queries sum to at most ε",
            conditions=tuple(conditions),
        )

    def open(self, stream: np.random.Generator, journal: Journal) -> EnsembleSession:
        d = self.defense
        service = Service(
            mechanism=Mixing(d.alpha, d.leakage, d.clip, d.temperature),
            ensemble=self.ensemble,
            models=2 * len(self.pairs),
            public=Tempered(self.public, d.temperature),
        )
        ledger = Ledger(d.epsilon, len(self.pairs), d.budget, journal)
        return EnsembleSession(service, ledger, stream, secret(d.source, journal))

    def unprotected(self) -> Release:
        """The plain mean of all members: what the ensemble leaks without the protocol."""
        promise = no_guarantee("the plain mean of SubMix's members promises nothing")
        return ModelRelease(Mean(joint(self._members)), promise)

    def neighbour(self, unit: int) -> Release | None:
        """The release without part `unit` (0 … k−1). Raises IndexError for another number."""
        if not 0 <= unit < len(self.pairs):
            raise IndexError(f"part {unit} of {len(self.pairs)}")
        rest = self.pairs[:unit] + self.pairs[unit + 1 :]
        return SubMixRelease(self.defense, self.public, rest)
