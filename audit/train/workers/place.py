"""The interface of workers, which train tasks; the choice of workers changes no result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from audit.core.processes import ALONE, Processes
from audit.core.progress import StepProgress
from audit.core.training import Teachers
from audit.train.task import Task

T = TypeVar("T")
R = TypeVar("R")


class Train(Protocol):
    """Trains one task and writes its weights."""

    def __call__(
        self,
        task: Task,
        report: StepProgress,
        teachers: Teachers | None = None,
        processes: Processes = ALONE,
        /,
    ) -> None:
        """Train a task; the first of the processes writes.

        teachers: that it asks; None: those whose weights lie beside its own.
        """


class Workers(ABC):
    """Trains tasks in some place, as long as its context is open."""

    @abstractmethod
    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        """Train independent tasks, started in this order.

        The weights of each are written as soon as it ends: a killed run loses only tasks in flight.
        """

    def first(self, task: Task) -> Sequence[Task]:
        """Return the tasks whose weights must be there before this one is trained here."""
        return task.earlier

    @property
    def at_once(self) -> int:
        """Number of items that `each` works on at once, on this machine."""
        return 1

    def each(
        self, do: Callable[[T, StepProgress], R], items: Sequence[T], report: StepProgress
    ) -> list[R]:
        """Apply a function to every item, started in this order, and return its results."""
        return [do(item, report) for item in items]
