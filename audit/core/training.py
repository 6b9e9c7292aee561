"""Trainings, the methods that run them, and the trained models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar

from torch import Tensor

from audit.core.checkpoint import NO_CHECKPOINT, Checkpoint
from audit.core.corpus import Record
from audit.core.counts import Counts
from audit.core.digest import digest_of_json
from audit.core.language_model import LanguageModel
from audit.core.layers import ALL, LAYERS
from audit.core.model import PreTrainedModel, TextTokenizer
from audit.core.processes import ALONE, Processes
from audit.core.progress import ShareDone
from audit.core.rules import NOT_NEGATIVE, POSITIVE, UNSAID, Rule, at_least, check_fields
from audit.core.spans import Span
from audit.core.terms import Unit


class Question(ABC):
    """A question to all teachers: a function of a model, which can be pickled."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """SHA-256 of all that determines what a model answers, beside its weights."""

    @abstractmethod
    def __call__(self, model: Any) -> Tensor:
        """Compute what a model answers."""


class Teachers(ABC):
    """The models that a training asks; they may be elsewhere, where only answers come from."""

    @abstractmethod
    def answers(self, question: Question) -> Iterator[Tensor]:
        """Yield the answer of each teacher, in their order, one in memory at a time."""


@dataclass(frozen=True)
class Models(Teachers):
    """Teachers in memory."""

    models: Sequence[Any] = ()

    def answers(self, question: Question) -> Iterator[Tensor]:
        return map(question, self.models)


NO_TEACHERS = Models()


@dataclass(frozen=True)
class BestStep:
    """The weights with the least loss on held-out text, and the share of training done, 0 to 1."""

    weights: Mapping[str, Tensor]
    share: float


class Method(ABC):
    """A training method: a frozen dataclass of plain values, all of which affect the model.

    first_piece_only: whether it ignores what a record has beyond the length to which it is cut.
    partial: whether it leaves out of the loss what `Training.learned` leaves out.
    divided: whether several processes can train one model.
    sharded: whether each of these can hold a part of a frozen base.
    """

    first_piece_only: ClassVar[bool] = False
    partial: ClassVar[bool] = False
    divided: ClassVar[bool] = False
    sharded: ClassVar[bool] = False

    @abstractmethod
    def train(
        self,
        model: PreTrainedModel,
        tokenizer: TextTokenizer,
        training: Training,
        progress: ShareDone | None = None,
        teachers: Teachers = NO_TEACHERS,
    ) -> BestStep | None:
        """Train `model` in place and leave the global random state unchanged.

        Returns the best step on `training.heldout` where that is not the last, else None.

        teachers: the models of `training.teachers`.
        """

    @abstractmethod
    def idle(self, training: Training) -> bool:
        """Decide whether the training leaves the model unchanged, whatever its texts."""

    def prompted(self, training: Training, tokenizer: TextTokenizer) -> Counts | None:
        """Count what a method without training writes into prompts; None: it writes nothing."""
        return None

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """The fields that it reads, of texts, owners and private; they make the digest."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything of the method that determines the model: its fields.

        A field that came later, and is marked `unsaid`, is left out at its default.
        """
        own = fields(self)  # type: ignore[arg-type]
        chosen = [
            f for f in own if not f.metadata.get("unsaid") or getattr(self, f.name) != f.default
        ]
        return {f.name: getattr(self, f.name) for f in chosen}

    @property
    @abstractmethod
    def passes(self) -> float:
        """Average number of times that each text is read."""


@dataclass(frozen=True)
class FineTuning(Method):
    """A plan's fine-tuning without protection; every field affects the weights.

    epochs: passes over all sequences; at least 0.
    learning_rate: peak learning rate of AdamW, after warm-up, falling to zero; above 0.
    batch_tokens: input tokens per step, including padding; a longer sequence is a batch of its
        own; at least 1.
    max_length: input tokens per row; longer sequences are cut; at least 1.
    warmup: share of the steps in which the learning rate rises; 0 to 1.
    weight_decay: weight decay of AdamW on every trained parameter; at least 0.
    beta2: decay of AdamW's average of squared gradients, lower for small batches; 0 to below 1.
    layers: layers to train: "all", or "top:N" for the last N blocks of a transformer.
    checkpoint_activations: whether blocks compute twice, which takes less memory and more time, for
        the same weights; also of `dp_sgd` and `s_dpsgd`.
    assistant_only: whether the loss is of the assistant's turns alone, in a corpus of
        conversations; a plan that says so fills `Training.learned`.
    """

    epochs: Annotated[int, at_least(0)]
    learning_rate: Annotated[float, POSITIVE]
    batch_tokens: Annotated[int, at_least(1)]
    max_length: Annotated[int, at_least(1)]
    warmup: Annotated[float, Rule("0 to 1", lambda share: 0 <= share <= 1)] = 0.1
    weight_decay: Annotated[float, NOT_NEGATIVE] = 0.0
    beta2: Annotated[float, Rule("at least 0 and below 1", lambda decay: 0 <= decay < 1)] = 0.999
    layers: Annotated[str, LAYERS] = ALL
    checkpoint_activations: bool = field(default=False, metadata=UNSAID)
    assistant_only: bool = field(default=False, metadata=UNSAID)

    def __post_init__(self) -> None:
        check_fields("training", self)


class NotFiniteError(Exception):
    """A loss or gradient is not finite; the message says where and what to do."""


@dataclass(frozen=True)
class Training:
    """One independent training; its fields determine the model.

    label: name for progress and messages; does not affect the model.
    method: the training method with all its settings.
    owners: protected unit of each text, for methods that protect units; else ().
    private: private spans of each text, for methods that treat them apart; else ().
    after: training whose model this one continues; None for the public model.
    teachers: trainings whose models the method queries, for methods that learn from answers.
    heldout: texts on which the best step is looked for, by methods that do so; else (). They
        change no step.
    learned: character spans of each text that are in the loss, for methods with `partial`; () for
        all of every text.
    key: key of the task that runs it: the digest with public model, device and versions. It seeds
        all noise. "" before the task is made.
    checkpoint: where a method may save its state and go on from after a kill; it changes no result.
    counts: where a method notes what its steps learnt from; it changes no model.
    processes: who trains it; how many there are changes sums by their rounding alone.
    """

    label: str
    texts: tuple[str, ...]
    method: Method
    seed: int
    owners: tuple[str, ...] = ()
    private: tuple[tuple[Span, ...], ...] = ()
    after: Training | None = None
    teachers: tuple[Training, ...] = ()
    heldout: tuple[str, ...] = ()
    learned: tuple[tuple[Span, ...], ...] = ()
    key: str = ""
    checkpoint: Checkpoint = field(default=NO_CHECKPOINT, compare=False, repr=False)
    counts: Counts = field(default_factory=Counts, compare=False, repr=False)
    processes: Processes = field(default=ALONE, compare=False, repr=False)

    @property
    def earlier(self) -> tuple[Training, ...]:
        """The trainings that must run before: its teachers, and the one that it continues."""
        return (*self.teachers, *([self.after] if self.after else []))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that determines the model."""
        method = self.method
        read = [getattr(self, name) for name in method.reads]
        before = None if self.after is None else self.after.digest
        teachers = [teacher.digest for teacher in self.teachers]
        parts = [type(method).__name__, method.settings, read, self.seed, before, teachers]
        parts += [self.heldout] if self.heldout else []
        parts += [{"learned": self.learned}] if self.learned else []
        return digest_of_json(parts, sort_keys=False, default=repr)


@dataclass(frozen=True)
class Trained:
    """A training and its trained model.

    best: the model at its best step on held-out text, and the share of the training done there, 0
        to 1; None where that was not looked for or is the last step.
    """

    training: Training
    model: LanguageModel
    best: tuple[LanguageModel, float] | None = None


def owners(records: Sequence[Record], unit: str) -> tuple[str, ...]:
    """Name the protected unit of each record: its user, or the record itself."""
    if unit == Unit.USER:
        return tuple(record.user for record in records)
    return tuple(f"{place}" for place in range(len(records)))
