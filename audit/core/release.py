"""What a defense gives to the world, and how a session with it is opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel, OpenSession
from audit.core.predictor import Access, Predictor


class Journal(Protocol):
    """Where a session's ledger rows are kept, so that a killed session still counts as spent."""

    @property
    def key(self) -> bytes:
        """What the rows' fingerprints are keyed with; the same when a session is replayed."""

    def previous(self) -> Sequence[dict[str, Any]]:
        """The rows an earlier, killed process already wrote for this session."""

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Writes rows and returns only when they are on disk."""


@dataclass(frozen=True)
class NoJournal:
    """A journal for releases that charge nothing, and for sessions outside a run."""

    key: bytes = b""

    def previous(self) -> Sequence[dict[str, Any]]:
        return ()

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        return None


@runtime_checkable
class Memory(Protocol):
    """What the servers of others have answered in this run; a journal may be one, too."""

    def recall(self, question: str) -> Any:
        """What was kept under this name; None where nothing was."""

    def keep(self, question: str, answer: Any) -> None:
        """Writes a JSON value and returns only when it is on disk."""


@dataclass(frozen=True)
class NoMemory:
    """A memory for sessions outside a run: whatever is asked again is asked again."""

    def recall(self, question: str) -> Any:
        return None

    def keep(self, question: str, answer: Any) -> None:
        return None


@dataclass(frozen=True)
class Origin:
    """Where a release is served by others. url: shown nowhere. served: the model's name there.
    sha256: of what the server says of it."""

    url: str
    served: str
    sha256: str


class Release(ABC):
    """A defended model, or a defended service that answers queries."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the release promises."""

    @property
    def origin(self) -> Origin | None:
        """Where others serve it; None: here."""
        return None

    @abstractmethod
    def open(self, stream: np.random.Generator, journal: Journal) -> Predictor:
        """Starts a session with a full budget. Sampling uses `stream` and nothing else."""

    @abstractmethod
    def unprotected(self) -> Release | None:
        """The same trained members without the protection, as a positive control; or None.

        It follows from the members alone: settings that share them share what is measured of it.
        """

    @abstractmethod
    def neighbour(self, unit: int) -> Release | None:
        """For the auditor only: the same release without that unit, where it can be built."""


@dataclass(frozen=True)
class ModelRelease(Release):
    """A single language model, handed out whole."""

    model: LanguageModel
    promise: Guarantee
    access: Access = Access.DISTRIBUTION

    @property
    def guarantee(self) -> Guarantee:
        return self.promise

    def open(self, stream: np.random.Generator, journal: Journal) -> Predictor:
        return OpenSession(self.model, stream, access=self.access)

    def unprotected(self) -> Release | None:
        return None

    def neighbour(self, unit: int) -> Release | None:
        return None
