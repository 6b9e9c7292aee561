"""Releases of ensembles: models of parts of the private data behind a mechanism and an account."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from audit.core.ensemble import Ensemble, Mean, Selected
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.language_model import LanguageModel
from audit.core.predictor import Access
from audit.core.release import Journal, ModelRelease, Release
from audit.core.terms import Relation
from audit.models.ensembles.batching import batched
from defenses.ensembles.accounts import PartsAccount
from defenses.ensembles.mechanism import Mechanism
from defenses.ensembles.session import EnsembleSession, Service


def secret(source: str, journal: Journal) -> bytes:
    """Make the key of a session's randomness: none, or random bytes that a replay has too."""
    if source == "seed":
        return b""
    return journal.key or os.urandom(32)


@dataclass(frozen=True)
class EnsembleRelease(Release):
    """Serves predictions of k parts, and of the public model after STOP.

    members: models of the parts, part by part. promise: the guarantee. source: of noise and sampled
        tokens: "seed", or "system" for the operating system's entropy.
    each: number of models of a part. after_stop: the model that answers after STOP; None for the
        public model.
    shared: of a neighbour, its place in the ensemble of the whole release.
    """

    mechanism: Mechanism
    account: PartsAccount
    public: LanguageModel
    members: tuple[LanguageModel, ...]
    promise: Guarantee
    source: str = "seed"
    each: int = 1
    after_stop: LanguageModel | None = None
    shared: Selected | None = field(default=None, compare=False, repr=False)

    @property
    def guarantee(self) -> Guarantee:
        return self.promise

    @cached_property
    def ensemble(self) -> Ensemble:
        """All members, then the public model if the mechanism reads it."""
        if self.shared:
            return self.shared
        public = (self.public,) if self.mechanism.reads_public else ()
        return self.account.together((*self.members, *public))

    @property
    def _models(self) -> int:
        return self.shared.of if self.shared else len(self.members) + self.mechanism.reads_public

    @property
    def _parts(self) -> int:
        return len(self.members) // self.each

    def open(self, stream: np.random.Generator, journal: Journal) -> EnsembleSession:
        service = Service(
            mechanism=self.mechanism,
            account=self.account,
            ensemble=self.ensemble,
            models=self._models,
            public=self.after_stop or self.public,
        )
        ledger = self.account.open(self._parts, journal)
        return EnsembleSession(service, ledger, stream, secret(self.source, journal))

    def unprotected(self) -> Release:
        """Return the plain mean of all members, which shows what leaks without the mechanism.

        It is read and never searched, for the service that it stands beside cannot be searched.
        """
        promise = no_guarantee("the plain mean of an ensemble's members has no guarantee")
        return ModelRelease(Mean(batched(self.members)), promise, Access.SCORE, Access.SCORE)

    def neighbour(self, unit: int) -> Release | None:
        """Return the release without part `unit` (0 … k−1), with the same noise and bounds; None if
        no member is left. Where the claim is on emptied parts, the public model takes its place.
        Raises IndexError out of that range."""
        k = self._checked(unit)
        if self.promise.relation == Relation.EMPTIED:
            return self._of([k if i == unit else i for i in range(k)])
        kept = [i for i in range(k) if i != unit]
        return self._of(kept) if kept else None

    def replaced(self, unit: int) -> Release:
        """Return the release with the members of part `unit` replaced by the next part's, with the
        same noise and bounds. Raises IndexError for a part out of 0 … k−1."""
        k = self._checked(unit)
        return self._of([(i + 1) % k if i == unit else i for i in range(k)])

    def _checked(self, unit: int) -> int:
        k = self._parts
        if not 0 <= unit < k:
            raise IndexError(f"part {unit} of {k}")
        return k

    def _of(self, parts: Sequence[int]) -> Release:
        """Return the same release of these parts, read together with all; part k is the public
        model, which only a mechanism that reads it may choose."""
        public = len(self.members)
        chosen = [min(part * self.each + i, public) for part in parts for i in range(self.each)]
        places = (*chosen, public) if self.mechanism.reads_public else tuple(chosen)
        shared = Selected(self.ensemble, places, self._models)
        models = (*self.members, self.public)
        return replace(self, members=tuple(models[i] for i in chosen), shared=shared)
