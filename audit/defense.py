"""A defense is a frozen dataclass: its fields are its parameters, its two methods its algorithm."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from audit.corpus import Corpus, Record
from audit.language_model import LanguageModel
from audit.models.fine_tuning import Recipe
from audit.models.loading import ModelFolder
from audit.models.method import Method
from audit.policies import Span
from audit.release import Release


@dataclass(frozen=True)
class Training:
    """One independent training task: what is said here determines its model.

    method: how it is trained, all settings included.
    owners: the protected unit each text belongs to, for methods that protect one; () elsewhere.
    private: the private spans of each text, for methods that tell them apart; () elsewhere.
    after: the training whose model this one continues; None: the public model.
    teachers: the trainings whose models the method asks, for methods that learn from answers.
    key: of the task that runs it, which adds the public model, device and versions to the digest;
        all noise follows from it. "" until there is a task.
    """

    label: str
    texts: tuple[str, ...]
    method: Method
    seed: int
    owners: tuple[str, ...] = ()
    private: tuple[tuple[Span, ...], ...] = ()
    after: Training | None = None
    teachers: tuple[Training, ...] = ()
    key: str = ""

    @property
    def earlier(self) -> tuple[Training, ...]:
        """The trainings that must come before: those that it asks, and the one it continues."""
        return (*self.teachers, *([self.after] if self.after else []))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that determines the model; the label does not."""
        method = self.method
        settings = {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]
        read = [getattr(self, name) for name in method.reads]
        before = None if self.after is None else self.after.digest
        asked = [teacher.digest for teacher in self.teachers]
        parts = (type(method).__name__, settings, read, self.seed, before, asked)
        return hashlib.sha256(json.dumps(parts, default=repr).encode()).hexdigest()


@dataclass(frozen=True)
class Trained:
    """A training and the model it made."""

    training: Training
    model: LanguageModel


class Defense(ABC):
    """Turns a private corpus and a public model into a Release. Never sees an attack.

    finished: whether it takes a model that others trained, instead of a corpus to train on.
    """

    finished = False

    @abstractmethod
    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: Recipe, seed: int
    ) -> Sequence[Training]:
        """The models this defense needs, as independent tasks.

        corpus: its private records carry the spans that the plan's policy marks; its population is
            the public size, which no coin moves.
        model: the public model, described and not loaded.
        recipe: the plan's fine-tuning without protection.
        Raises UsageError where corpus or model cannot serve (too few users, say).
        """

    @abstractmethod
    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        """The release made from `trained`, one for each task, in the tasks' order."""


def owners(records: Sequence[Record], unit: str) -> tuple[str, ...]:
    """The protected unit of each record: its user, or itself."""
    if unit == "user":
        return tuple(record.user for record in records)
    return tuple(f"{place}" for place in range(len(records)))
