"""Ensembles of one model per part of the private data; every query costs the same worst-case ε."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch

from audit.core.corpus import Corpus
from audit.core.ensemble import Ensemble, Mean, Selected, Separate
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.language_model import LanguageModel
from audit.core.layers import ALL
from audit.core.ledger import Ledger, round_up
from audit.core.model import ModelFolder
from audit.core.predictor import Access
from audit.core.randomness import derived_seed, stream
from audit.core.release import Journal, ModelRelease, Release
from audit.core.rules import Rule
from audit.core.terms import Relation, Unit
from audit.core.training import FineTuning, Training
from audit.models.ensembles.batching import batched
from defenses.ensembles.filter import Filter, Weighing
from defenses.ensembles.mechanisms.mixing import Aside, Mixed, distributions
from defenses.ensembles.session import EnsembleSession, Service
from defenses.training import partition
from defenses.training.checks import check_layers

# nearer to 1 the divergence cancels to 0
ORDER = Rule("at least 1.01 and finite", lambda alpha: 1.01 <= alpha < math.inf)
_NOISE_FLOOR = 1e-11  # nats: room for rounding errors of a divergence near 0
_ROUNDING = 2e-5  # share of a charge: room for rounding it up to six digits


# conditions of claims on emptied parts, and per user
EMPTIED = (
    "a part is emptied where all its users are gone, its model is the public model, and the other "
    "parts stay: another relation than removed, where k − 1 parts are left; the two are never "
    "ranked"
)
FIXED_USERS = (
    "which users are private is fixed beforehand, or, where a corpus names no splits, by a hash of "
    "each user's own id or only text, so that one user more moves no other; in a corpus of so few "
    "users that the hash holds out nobody, it may move one other, and the claim does not hold"
)
PER_USER = (
    "per user (added, removed, or with other records under the same id; a user replaced by one "
    "with another id is two changes, which this does not bound)"
)
READ_ALONE = (
    "each model is read on its own, so its numbers, and what its part is charged, do not depend on "
    "the other models"
)
READ_ALIKE = (
    "taken for granted: the numbers of the other models do not depend on who is read with them; in "
    "float32 they may differ by 1e-5 nats, which is not in ε"
)
ONE_TOKEN = (
    "each query releases one sampled token; perplexity is measured by the auditor, outside the "
    "guarantee"
)


class Answering(Protocol):
    """A mechanism that costs every part the same for every query.

    divergence: bound on D_α of one query, nats, for the unit and relation of the release.
    access: what an answer gives away. reads_public: whether the public model's pmf follows the
        members'.
    """

    @property
    def divergence(self) -> float: ...

    @property
    def access(self) -> Access: ...

    @property
    def reads_public(self) -> bool: ...

    def answer(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> torch.Tensor:
        """Computes log of the pmf that answers each query: (n, m, V) to (n, V), nats."""

    def aside(self, log_pmfs: torch.Tensor) -> Aside:
        """Computes what only the auditor may know of n queries."""


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


def secret(source: str, journal: Journal) -> bytes:
    """Gives the key of a session's randomness: none, or random bytes that a replay has too."""
    if source == "seed":
        return b""
    return journal.key or os.urandom(32)


def randomness(source: str) -> str:
    """States the condition on who may know the randomness of a session."""
    if source == "system":
        return "noise and sampled tokens come from the operating system's entropy"
    return (
        "Noise and sampled tokens are derived from the run's texts and the seed stored in "
        "results.json, so the guarantee holds only against someone who does not know both, and a "
        "small seed is easy to guess. For a real release use source=system."
    )


def share(epsilon: float, budget: int) -> float:
    """Gives the share of ε for one of B queries, in nats, so that B rounded charges fit in ε."""
    return epsilon / budget * (1 - _ROUNDING)


def texts_by_user(name: str, k: int, corpus: Corpus) -> dict[str, list[str]]:
    """Groups private texts by user. Raises UsageError for more parts than users."""
    texts: dict[str, list[str]] = {}
    for record in corpus.of("private"):
        texts.setdefault(record.user, []).append(record.text)
    if k > len(texts):
        raise UsageError(f"{name}: k is {k}, but only {len(texts)} users are trained on; lower k")
    return texts


def trainings(
    name: str, settings: Settings, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
) -> tuple[Training, ...]:
    """Gives one training for each of k parts of the users, the same parts as SubMix's.

    Defenses with equal settings share the models. Raises UsageError for more parts than users, or
    more blocks than the model has.
    """
    k, texts = settings.k, texts_by_user(name, settings.k, corpus)
    users = tuple(texts)
    order = [users[int(i)] for i in stream(seed, "submix", "partition").permutation(len(users))]
    parts = [[text for user in order[i::k] for text in texts[user]] for i in range(k)]
    return one_model_a_part(name, settings, parts, model, recipe, seed)


def hashed_trainings(
    name: str, settings: Settings, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
) -> Sequence[Training]:
    """Gives one training a part. A user's part is independent of all other users.

    Defenses with equal settings share the models. Raises UsageError for more blocks than the model
    has.
    """
    records = corpus.of("private")
    key = derived_seed(seed, "capped_submix", "parts")  # one key for all of them
    parts: list[list[str]] = [[] for _ in range(settings.k)]
    placed = partition.partition(records, settings.k, 1, key)
    for record, part in zip(records, placed, strict=True):
        parts[part].append(record.text)
    return one_model_a_part(name, settings, parts, model, recipe, seed)


def one_model_a_part(
    name: str,
    settings: Settings,
    parts: Sequence[Sequence[str]],
    model: ModelFolder,
    recipe: FineTuning,
    seed: int,
) -> tuple[Training, ...]:
    """Gives one training for the texts of each part; a part without texts keeps the public model.

    Raises UsageError for more blocks than the model has.
    """
    check_layers(name, settings.train, model)
    if settings.train != ALL:
        recipe = replace(recipe, layers=settings.train)
    return tuple(
        Training(
            label=f"{name} part {i + 1}/{len(parts)}",
            texts=tuple(texts),
            method=recipe,
            seed=derived_seed(seed, "ensemble", "member", i),
        )
        for i, texts in enumerate(parts)
    )


@dataclass(frozen=True)
class _Priced:
    """A mechanism with its charge, the same for every answer and part; None: its local cost."""

    inner: Answering
    charge: float | None
    parts: int

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        unweighted = torch.empty(len(log_pmfs), 0)
        clean = distributions(log_pmfs)
        answer, aside = self.inner.answer(clean, seeds), self.inner.aside(clean)
        if self.charge is None:
            assert aside.local is not None
            charges = aside.local * (1 + 1e-9) + _NOISE_FLOOR
            return Mixed(answer, unweighted, charges, replace(aside, local=None))
        charges = torch.full((len(log_pmfs), self.parts), self.charge, dtype=torch.float64)
        return Mixed(answer, unweighted, charges, aside)


@dataclass(frozen=True)
class EnsembleRelease(Release):
    """Serves predictions of k members, and of the public model after B queries.

    relation, also, theorem, conditions: parts of the guarantee; conditions of all ensembles are
        added.
    by_data: whether a query is charged its local cost (`Aside`), for a claim that is data-dependent
        and a STOP that depends on the data; else its worst case.
    shared: of a neighbour, its place in the ensemble of the whole release.
    With a mechanism that weighs, every part pays from an account of its own. Models are then read
    one by one: whether a cost fits is a jump, which the last digit of a number can decide.
    """

    settings: Settings
    mechanism: Answering | Weighing
    public: LanguageModel
    members: tuple[LanguageModel, ...]
    relation: str
    theorem: str
    conditions: tuple[str, ...]
    also: tuple[str, ...] = ()
    by_data: bool = False
    shared: Selected | None = field(default=None, compare=False, repr=False)

    @cached_property
    def ensemble(self) -> Ensemble:
        """All members, then the public model if the mechanism reads it."""
        if self.shared:
            return self.shared
        public = (self.public,) if self.mechanism.reads_public else ()
        models = (*self.members, *public)
        return Separate(models) if self._filtered else batched(models)

    @property
    def _filtered(self) -> bool:
        return isinstance(self.mechanism, Weighing)

    @property
    def _models(self) -> int:
        return self.shared.of if self.shared else len(self.members) + self.mechanism.reads_public

    @property
    def charge(self) -> float:
        """D_α of one query, nats, rounded up with a margin for floating-point error."""
        return round_up(self.mechanism.divergence * (1 + 1e-9))

    @property
    def guarantee(self) -> Guarantee:
        target, budget = self.settings.epsilon, self.settings.budget
        return Guarantee(
            epsilon=round_up(budget * self.charge) if target is None else target,
            alpha=self.settings.alpha,
            unit=Unit.PART,
            relation=self.relation,
            also=self.also,
            release="predictions",
            basis="data-dependent" if self.by_data else "worst case",
            theorem=self.theorem,
            conditions=(
                *self.conditions,
                *self._charged,
                f"each session spends a budget of its own: the ε of several sessions add up "
                f"({budget} queries each)",
                "all records of a user are in one part; a text in several parts is protected less: "
                "its loss grows about with the square of their number",
                randomness(self.settings.source),
                "noise and tokens are drawn in float64, not on the real line",
            ),
        )

    @property
    def _charged(self) -> tuple[str, ...]:
        """States what a query costs, and when the service stops."""
        budget = self.settings.budget
        if self.by_data:
            return (
                "holds for this data set, this partition of the users and the STOP of this run: a "
                "query costs a part what it could change at most with the other parts as they are, "
                "so costs and STOP are themselves private; when the run with another part would "
                "have stopped is not charged",
                f"as a worst case {budget} such queries cost {budget * self.charge:.6g} nats",
            )
        how = (
            f"a query costs a part by its own model, at most {self.charge:.6g} nats of D_α; a part "
            "whose account does not hold that is silent in the query, and nobody is told"
            if self._filtered
            else f"every query costs every part the same {self.charge:.6g} nats of D_α"
        )
        return (f"{how}; the service stops after {budget} queries, a public number",)

    def _charging(self, journal: Journal) -> tuple[_Priced | Filter, Ledger]:
        """Gives a session's mechanism with its charges, and its ledger."""
        parts, budget = len(self.members), self.settings.budget
        if isinstance(self.mechanism, Weighing):
            assert self.settings.epsilon is not None
            ledger = Ledger(self.settings.epsilon, parts, budget, journal)
            return Filter(self.mechanism, ledger), ledger
        if self.by_data:
            assert self.settings.epsilon is not None
            ledger = Ledger(self.settings.epsilon, parts, budget, journal)
            return _Priced(self.mechanism, None, parts), ledger
        # half a charge above: B charges fit strictly, B + 1 do not
        ledger = Ledger((budget + 0.5) * self.charge, parts, budget, journal)
        return _Priced(self.mechanism, self.charge, parts), ledger

    def open(self, stream: np.random.Generator, journal: Journal) -> EnsembleSession:
        mechanism, ledger = self._charging(journal)
        service = Service(
            mechanism=mechanism,
            ensemble=self.ensemble,
            models=self._models,
            public=self.public,
            access=self.mechanism.access,
        )
        return EnsembleSession(service, ledger, stream, secret(self.settings.source, journal))

    def unprotected(self) -> Release:
        """Gives the plain mean of all members, which shows what leaks without the mechanism.

        It is read and never searched, for the service that it stands beside cannot be searched.
        """
        promise = no_guarantee("the plain mean of an ensemble's members has no guarantee")
        return ModelRelease(Mean(batched(self.members)), promise, Access.SCORE, Access.SCORE)

    def neighbour(self, unit: int) -> Release | None:
        """Gives the release without part `unit` (0 … k−1), with the same noise and bounds; None if
        no member is left. Where the claim is on emptied parts, the public model takes its place.
        Raises IndexError out of that range."""
        k = self._checked(unit)
        if self.relation == Relation.EMPTIED:
            return self._of([k if i == unit else i for i in range(k)])
        kept = [i for i in range(k) if i != unit]
        return self._of(kept) if kept else None

    def replaced(self, unit: int) -> Release:
        """Gives the release with the member of part `unit` replaced by the next part's, with the
        same noise and bounds. Raises IndexError for a part out of 0 … k−1."""
        k = self._checked(unit)
        return self._of([(i + 1) % k if i == unit else i for i in range(k)])

    def _checked(self, unit: int) -> int:
        k = len(self.members)
        if not 0 <= unit < k:
            raise IndexError(f"part {unit} of {k}")
        return k

    def _of(self, chosen: Sequence[int]) -> Release:
        """Gives the same release of these members, read together with all; k is the public model,
        which only a mechanism that reads it may choose."""
        public = [len(self.members)] if self.mechanism.reads_public else []
        shared = Selected(self.ensemble, (*chosen, *public), self._models)
        models = (*self.members, self.public)
        return replace(self, members=tuple(models[i] for i in chosen), shared=shared)
