"""Releases: what a defense publishes, and how sessions with it are opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel, OpenSession
from audit.core.predictor import Access, Predictor


class Journal(Protocol):
    """Stores a session's ledger rows, so that a killed session still counts as spent."""

    @property
    def key(self) -> bytes:
        """Key of the rows' fingerprints; the same when a session is replayed."""

    def previous(self) -> Sequence[dict[str, Any]]:
        """Return the rows that a killed process already wrote for this session."""

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows; return when they are on disk."""


@dataclass(frozen=True)
class NoJournal:
    """Stores nothing: for releases without charges, and for sessions outside a run."""

    key: bytes = b""

    def previous(self) -> Sequence[dict[str, Any]]:
        return ()

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        return None


@runtime_checkable
class Memory(Protocol):
    """Stores answers of external servers in this run; a journal may be one, too."""

    def recall(self, question: str) -> Any:
        """Return the answer stored for this question; None if there is none."""

    def keep(self, question: str, answer: Any) -> None:
        """Store a JSON value; return when it is on disk."""


@dataclass(frozen=True)
class NoMemory:
    """Stores nothing: for sessions outside a run."""

    def recall(self, question: str) -> Any:
        return None

    def keep(self, question: str, answer: Any) -> None:
        return None


@dataclass(frozen=True)
class Origin:
    """The server of an external release.

    url: never shown. served: name of the model there. sha256: hash of the server's description.
    """

    url: str
    served: str
    sha256: str


class Release(ABC):
    """A defended model, or a defended service that answers queries."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of the release."""

    @property
    def origin(self) -> Origin | None:
        """The external server; None for a release that runs here."""
        return None

    @property
    def unheard(self) -> str:
        """Why no attack can show what was planted, as far as is known; "" where one can."""
        return ""

    @abstractmethod
    def open(self, stream: np.random.Generator, journal: Journal) -> Predictor:
        """Open a session with a full budget. `stream` is its only source of randomness."""

    def unprotected(self) -> Release | None:
        """Return the same trained models without protection, as a positive control; or None.

        It depends on the models only, so settings that share models share its measurements.
        """
        return None

    def at_best_step(self) -> tuple[Release, float] | None:
        """Return the same release at the best step of its training on held-out text, and the share
        of the training done there, 0 to 1; None where that is the last or was not looked for."""
        return None

    def neighbour(self, unit: int) -> Release | None:
        """Return the same release without that unit, for the auditor only; None if impossible.

        Units are numbered from 0, as in the ledger. Raises IndexError for a unit that is not there.
        """
        return None

    def replaced(self, unit: int) -> Release | None:
        """Return the same release with that unit replaced by another one, as `neighbour` does."""
        return None


@dataclass(frozen=True)
class ModelRelease(Release):
    """Releases a single language model as a whole.

    readable: what an auditor may read; less than everything where nothing is compared with more.
    best: the model at its best step, where that is not the last, and the share of training there.
    texts: texts that are published in place of a model; `model` is then one that a reader trained
        on them. () for none.
    """

    model: LanguageModel
    promise: Guarantee
    access: Access = Access.DISTRIBUTION
    readable: Access = Access.DISTRIBUTION
    best: tuple[LanguageModel, float] | None = None
    texts: tuple[str, ...] = ()

    @property
    def guarantee(self) -> Guarantee:
        return self.promise

    def open(self, stream: np.random.Generator, journal: Journal) -> Predictor:
        access, readable = self.access, self.readable
        return OpenSession(self.model, stream, access=access, readable=readable, texts=self.texts)

    def at_best_step(self) -> tuple[Release, float] | None:
        if self.best is None:
            return None
        model, share = self.best
        return replace(self, model=model, best=None), share
