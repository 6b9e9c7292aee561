"""A method turns a model into a trained one; its fields are all that decides how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from audit.defense import Training
    from audit.models.loading import TextTokenizer

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


class NotFiniteError(Exception):
    """A loss or gradient is no longer a number; the message says where and what to do."""
