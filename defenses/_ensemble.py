"""An ensemble of one model a part, asked through a mechanism of constant, worst-case cost."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch

from audit.core.corpus import Corpus
from audit.core.ensemble import Ensemble, Mean
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.language_model import LanguageModel
from audit.core.layers import ALL
from audit.core.ledger import Ledger, round_up
from audit.core.model import ModelFolder
from audit.core.predictor import Access
from audit.core.randomness import derived_seed, stream
from audit.core.release import Journal, ModelRelease, Release
from audit.core.training import FineTuning, Training
from audit.models.ensembles.batching import joint
from defenses._checks import check_choice, check_layers, check_train, refused
from defenses._ensemble_session import EnsembleSession, Service
from defenses._mixing import Aside, Mixed

_ROUNDING = 2e-5  # of a charge: room for it to be rounded up to six digits


class Answering(Protocol):
    """A mechanism that costs every part the same, whatever is asked and whoever answers.

    divergence: D_α of one query, nats, at most; of the unit and relation that the release names.
    access: what an answer gives away. reads_public: whether the public model's pmf stands behind
        the members'.
    """

    @property
    def divergence(self) -> float: ...

    @property
    def access(self) -> Access: ...

    @property
    def reads_public(self) -> bool: ...

    def answer(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> torch.Tensor:
        """log of the pmf each of n queries is answered from, (n, V), given (n, m, V), nats."""

    def aside(self, log_pmfs: torch.Tensor) -> Aside:
        """What the auditor may know of n queries beside their answers."""


class Settings(Protocol):
    """The parameters that these defenses share."""

    @property
    def epsilon(self) -> float | None: ...

    @property
    def k(self) -> int: ...

    @property
    def alpha(self) -> float: ...

    @property
    def budget(self) -> int: ...

    @property
    def train(self) -> str: ...

    @property
    def source(self) -> str: ...


def check(name: str, settings: Settings) -> None:
    """Raises UsageError for a shared parameter out of range."""
    if settings.k < 2:
        raise refused(name, settings.k, "k", "at least 2")
    if not 1.01 <= settings.alpha < math.inf:  # nearer to 1 the divergence cancels to 0
        raise refused(name, settings.alpha, "alpha", "at least 1.01 and finite")
    if settings.budget < 1:
        raise refused(name, settings.budget, "budget", "at least 1")
    check_train(name, settings.train)
    check_choice(settings, name, source=("seed", "system"))


def secret(source: str, journal: Journal) -> bytes:
    """What keys the randomness of a session: nothing, or random bytes that its replay has too."""
    if source == "seed":
        return b""
    return journal.key or os.urandom(32)


def said(source: str) -> str:
    """Whom the randomness of a session is secret from."""
    if source == "system":
        return "noise and sampled tokens follow from the operating system's entropy"
    return (
        "noise and sampled tokens follow from the run's seed and texts: against those who do not "
        "know both, and a small seed is soon guessed; release with source=system"
    )


def share(epsilon: float, budget: int) -> float:
    """What one of B queries may cost of ε, in nats, so that B rounded charges stay within it."""
    return epsilon / budget * (1 - _ROUNDING)


def texts_by_user(name: str, k: int, corpus: Corpus) -> dict[str, list[str]]:
    """The private texts of each user. Raises UsageError for more parts than users."""
    texts: dict[str, list[str]] = {}
    for record in corpus.of("private"):
        texts.setdefault(record.user, []).append(record.text)
    if k > len(texts):
        raise UsageError(f"{name}: k is {k}, but only {len(texts)} users are trained on; lower k")
    return texts


def trainings(
    name: str, settings: Settings, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
) -> tuple[Training, ...]:
    """One model on each of k parts of the users: the parts of SubMix under the same seed.

    Defenses that ask for the same models share them. Raises UsageError for more parts than users,
    or more blocks than the model has.
    """
    k, texts = settings.k, texts_by_user(name, settings.k, corpus)
    check_layers(name, settings.train, model)
    if settings.train != ALL:
        recipe = replace(recipe, layers=settings.train)
    users = tuple(texts)
    order = [users[int(i)] for i in stream(seed, "submix", "partition").permutation(len(users))]
    return tuple(
        Training(
            label=f"{name} part {i + 1}/{k}",
            texts=tuple(text for user in order[i::k] for text in texts[user]),
            method=recipe,
            seed=derived_seed(seed, "ensemble", "member", i),
        )
        for i in range(k)
    )


@dataclass(frozen=True)
class _Priced:
    """The mechanism as a session asks it: every answer with the same charge for every part."""

    inner: Answering
    charge: float
    parts: int

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        charges = torch.full((len(log_pmfs), self.parts), self.charge, dtype=torch.float64)
        unweighted = torch.empty(len(log_pmfs), 0)
        clean = distributions(log_pmfs)
        answer, aside = self.inner.answer(clean, seeds), self.inner.aside(clean)
        return Mixed(answer, unweighted, charges, aside)


def distributions(log_pmfs: torch.Tensor) -> torch.Tensor:
    """The log-pmfs, (…, V), with the uniform one for any that is none.

    A worst case holds for whatever members answer; broken weights answer no distribution at all.
    """
    sums = log_pmfs.logsumexp(dim=-1, keepdim=True)
    uniform = torch.full_like(log_pmfs, -math.log(log_pmfs.shape[-1]))
    return torch.where(sums.abs() < 1e-3, log_pmfs, uniform)  # NaN compares false


@dataclass(frozen=True)
class EnsembleRelease(Release):
    """The prediction service: k members, and the public model after B queries.

    relation, also, theorem, conditions: of the guarantee, which adds what holds for all of its
        kind.
    """

    settings: Settings
    mechanism: Answering
    public: LanguageModel
    members: tuple[LanguageModel, ...]
    relation: str
    theorem: str
    conditions: tuple[str, ...]
    also: tuple[str, ...] = ()

    @cached_property
    def ensemble(self) -> Ensemble:
        """All members, and after them the public model where the mechanism reads it."""
        return joint((*self.members, self.public) if self.mechanism.reads_public else self.members)

    @property
    def charge(self) -> float:
        """D_α of one query, nats, and what floating point may have hidden, rounded up."""
        return round_up(self.mechanism.divergence * (1 + 1e-9))

    @property
    def guarantee(self) -> Guarantee:
        asked, budget = self.settings.epsilon, self.settings.budget
        return Guarantee(
            epsilon=round_up(budget * self.charge) if asked is None else asked,
            alpha=self.settings.alpha,
            unit="part",
            relation=self.relation,
            also=self.also,
            release="predictions",
            basis="worst case",
            theorem=self.theorem,
            conditions=(
                *self.conditions,
                f"every query costs every part {self.charge:.6g}, whatever is asked; when the "
                f"service stops, after {budget} queries, is public",
                f"each session has the full budget; sessions of one release add up ({budget} "
                "queries each)",
                "all records of a user are in one part; a text that several parts hold is "
                "protected less: its loss grows about with the square of their number",
                said(self.settings.source),
                "noise and tokens are drawn in float64, not on the real line",
            ),
        )

    def open(self, stream: np.random.Generator, journal: Journal) -> EnsembleSession:
        budget, charge = self.settings.budget, self.charge
        # half a charge above: B charges fit strictly, B + 1 do not
        ledger = Ledger((budget + 0.5) * charge, len(self.members), budget, journal)
        service = Service(
            mechanism=_Priced(self.mechanism, charge, len(self.members)),
            ensemble=self.ensemble,
            models=len(self.members) + self.mechanism.reads_public,
            public=self.public,
            access=self.mechanism.access,
        )
        return EnsembleSession(service, ledger, stream, secret(self.settings.source, journal))

    def unprotected(self) -> Release:
        """The plain mean of all members: what the ensemble leaks without the mechanism."""
        promise = no_guarantee("the plain mean of an ensemble's members promises nothing")
        return ModelRelease(Mean(joint(self.members)), promise)

    def neighbour(self, unit: int) -> Release | None:
        """The release without part `unit` (0 … k−1), noise and bounds unchanged; None where no
        member would be left. Raises IndexError for another number."""
        if not 0 <= unit < len(self.members):
            raise IndexError(f"part {unit} of {len(self.members)}")
        rest = self.members[:unit] + self.members[unit + 1 :]
        return replace(self, members=rest) if rest else None
