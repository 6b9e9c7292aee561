"""A defense is a frozen dataclass: its fields are its parameters, its two methods its algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from audit.corpus import Corpus
from audit.language_model import LanguageModel
from audit.models.fine_tuning import Recipe
from audit.release import Release


@dataclass(frozen=True)
class Training:
    """One independent training task: texts, a recipe and a seed determine its model.

    Without texts the result is the public model itself.
    """

    label: str
    texts: tuple[str, ...]
    recipe: Recipe
    seed: int


class Defense(ABC):
    """Turns a private corpus and a public model into a Release. Never sees an attack."""

    @abstractmethod
    def trainings(self, corpus: Corpus, recipe: Recipe, seed: int) -> Sequence[Training]:
        """The models this defense needs, as independent tasks.

        Raises UsageError where the corpus cannot serve (too few users, say). Loads no model.
        """

    @abstractmethod
    def release(self, public: LanguageModel, trained: Sequence[LanguageModel]) -> Release:
        """The release made from `trained`, one model for each task, in the tasks' order."""
