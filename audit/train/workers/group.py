"""The processes of torch.distributed, which raise each other's errors and notice a lost one."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar, final

import torch
from torch import Tensor
from torch import distributed as dist

from audit.core.processes import Processes

T = TypeVar("T")
MEETING = timedelta(minutes=2)  # until those that have started here have met
PATIENCE = timedelta(days=7)  # how long the others wait while the first attacks
LOST = (
    "a process that trained with this one has ended; the same command goes on from the last "
    "checkpoint"
)


class LostError(RuntimeError):
    """A process of the group has ended."""


@final
class Group(Processes):
    """The processes of torch.distributed's default group.

    raised: whether an error was raised in all of them.
    """

    def __init__(self) -> None:
        self.rank, self.number = dist.get_rank(), dist.get_world_size()
        self.raised = False

    def first(self, do: Callable[[], T]) -> T:
        outcomes = [_outcome(do) if self.rank == 0 else None]
        with noticing():
            dist.broadcast_object_list(outcomes, device=torch.device("cpu"))
        value: T = self._value(outcomes[0])
        return value

    def every(self, do: Callable[[], Sequence[T]]) -> list[T]:
        outcomes: list[Any] = [None] * self.number
        own = _outcome(do)
        with noticing():
            dist.all_gather_object(outcomes, own)
        return [item for outcome in outcomes for item in self._value(outcome)]

    def add(self, tensors: Sequence[Tensor]) -> None:
        with noticing():
            for tensor in tensors:
                dist.all_reduce(tensor)

    def _value(self, outcome: Any) -> Any:
        value, error = outcome
        if error is not None:
            self.raised = True
            raise error
        return value


@contextlib.contextmanager
def noticing() -> Iterator[None]:
    """Raise LostError where another process has ended."""
    try:
        yield
    except RuntimeError as error:
        raise LostError(LOST) from error


def _outcome(do: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return do(), None
    except Exception as error:  # raised in every process, so that none waits for another
        return None, _portable(error)


def _portable(error: Exception) -> Exception:
    """Return the error, or one of the same words where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
