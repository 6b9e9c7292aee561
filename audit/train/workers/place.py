"""The interface of workers, which train tasks; the choice of workers changes no result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from audit.core.progress import StepProgress
from audit.train.task import Task

Train = Callable[[Task, StepProgress], None]  # trains one task and writes task.path


class Workers(ABC):
    """Trains tasks in some place, as long as its context is open."""

    @abstractmethod
    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        """Trains independent tasks, started in this order.

        The weights of each are written as soon as it ends: a killed run loses only tasks in flight.
        """
