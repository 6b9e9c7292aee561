"""A defense is a frozen dataclass: its fields are its parameters, its two methods its algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from audit.core.corpus import Corpus
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.release import Release
from audit.core.training import FineTuning, Trained, Training


class Defense(ABC):
    """Turns a private corpus and a public model into a Release. Never sees an attack.

    finished: whether it takes a model that others trained, instead of a corpus to train on.
    """

    finished = False

    @abstractmethod
    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
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
