"""Material that a plan is resolved on: the loaded corpus and model, and the planted secrets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.corpus import Corpus
from audit.core.model import ModelFolder
from audit.plan.plan import Chosen
from audit.plan.source import Source
from audit.plan.text import Text

REFERENCES = ("none", "public")


@dataclass(frozen=True)
class Material(ABC):
    """references: the controls that can run beside the requested defenses.
    users: N of the default δ. text: the texts that an external model wrote; None for none."""

    corpus: Corpus
    model: ModelFolder
    source: Source
    references: tuple[str, ...]
    users: int
    text: Text | None

    @property
    def trains(self) -> bool:
        """Return whether defenses can be trained beside a model of elsewhere."""
        return False

    @abstractmethod
    def accept(self, defenses: Sequence[Chosen], attacks: Sequence[Chosen]) -> tuple[Chosen, ...]:
        """Complete the defenses for this material. Raises UsageError for what it cannot serve."""
