"""What a place is where tasks are trained: one place a file. The place does not change a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from audit.train.task import Task

Report = Callable[[str, float], None]  # label, share done from 0 to 1
Train = Callable[[Task, Report], None]  # trains one task and keeps its weights at task.path


class Workers(ABC):
    """A place where tasks are trained, open for as long as its context."""

    @abstractmethod
    def train(self, train: Train, tasks: Sequence[Task], report: Report) -> None:
        """Trains tasks of which none needs another, begun in their order.

        Each is kept as soon as it is finished, so that a killed run loses only those in flight.
        """
