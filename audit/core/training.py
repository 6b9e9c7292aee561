"""A training task, the method that carries it out, and the model that comes of it."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from transformers import PreTrainedModel

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.core.language_model import LanguageModel
from audit.core.layers import ALL, is_layers
from audit.core.model import TextTokenizer
from audit.core.spans import Span

Progress = Callable[[float], None]  # share of the steps done, 0 to 1
Teachers = Iterable[Any]  # models, in order, as often as they are asked for


class Method(ABC):
    """How a model is trained; a frozen dataclass of plain values, every one of which matters."""

    @abstractmethod
    def train(
        self,
        model: PreTrainedModel,
        tokenizer: TextTokenizer,
        training: Training,
        progress: Progress | None = None,
        teachers: Teachers = (),
    ) -> None:
        """Trains `model` in place. The global random state is left as it was.

        teachers: the models of `training.teachers`. Only one of them is in memory: it is gone
            when the next is reached.
        """

    @abstractmethod
    def idle(self, training: Training) -> bool:
        """Whether the training leaves the model as it is, whatever secrets the texts hold."""

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """Which of a training's texts, owners and private spans it reads: they make its key."""

    @property
    @abstractmethod
    def passes(self) -> float:
        """How often each text is read, on average."""


@dataclass(frozen=True)
class FineTuning(Method):
    """How a plan fine-tunes without protection; every field changes the weights.

    epochs: passes over all sequences.
    learning_rate: AdamW's peak, reached after warm-up, zero after the last step.
    batch_tokens: input tokens per step, padding included; a longer sequence is a batch of its own.
    max_length: input tokens per row; longer sequences are cut.
    warmup: share of the steps in which the learning rate rises, 0 to 1.
    weight_decay: AdamW's, on every parameter that is trained.
    beta2: AdamW's memory of squared gradients, 0 to 1; shorter for small batches.
    layers: "all", or "top:N": of a transformer, only the last N blocks are trained.
    """

    epochs: int
    learning_rate: float
    batch_tokens: int
    max_length: int
    warmup: float = 0.1
    weight_decay: float = 0.0
    beta2: float = 0.999
    layers: str = ALL

    def __post_init__(self) -> None:
        rules = {
            "epochs": self.epochs >= 0,
            "learning_rate": 0 < self.learning_rate < math.inf,
            "batch_tokens": self.batch_tokens >= 1,
            "max_length": self.max_length >= 1,
            "warmup": 0 <= self.warmup <= 1,
            "weight_decay": 0 <= self.weight_decay < math.inf,
            "beta2": 0 <= self.beta2 < 1,
            "layers": is_layers(self.layers),
        }
        for name, kept in rules.items():
            if not kept:
                raise UsageError(f"training: {name} cannot be {getattr(self, name)}")


class NotFiniteError(Exception):
    """A loss or gradient is no longer a number; the message says where and what to do."""


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


def owners(records: Sequence[Record], unit: str) -> tuple[str, ...]:
    """The protected unit of each record: its user, or itself."""
    if unit == "user":
        return tuple(record.user for record in records)
    return tuple(f"{place}" for place in range(len(records)))
