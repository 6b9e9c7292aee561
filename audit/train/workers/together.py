"""Trains each model by several processes together, through torch.distributed.

The first process runs the audit. The others wait for a task, compute their part of its sums, and
wait for the next. `--processes N` starts them here; torchrun and `accelerate launch` start them on
any machines that see the run folder and the model under the same paths.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from typing import Any, TypeVar, final

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from audit.core.machine import launched
from audit.core.processes import Processes
from audit.core.progress import StepProgress
from audit.train.task import Task
from audit.train.workers.place import R, Train, Workers
from audit.train.workers.pool import end_with_parent, starting

T = TypeVar("T")
PATIENCE = timedelta(days=7)  # how long the others wait while the first attacks


@final
class Group(Processes):
    """The processes of torch.distributed's default group."""

    def __init__(self) -> None:
        self.rank, self.number = dist.get_rank(), dist.get_world_size()

    def first(self, do: Callable[[], T]) -> T:
        outcomes = [_outcome(do) if self.rank == 0 else None]
        dist.broadcast_object_list(outcomes, device=torch.device("cpu"))
        value: T = _value(outcomes[0])
        return value

    def every(self, do: Callable[[], Sequence[T]]) -> list[T]:
        outcomes: list[Any] = [None] * self.number
        dist.all_gather_object(outcomes, _outcome(do))
        return [item for outcome in outcomes for item in _value(outcome)]

    def add(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            dist.all_reduce(tensor)


def _outcome(do: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return do(), None
    except Exception as error:  # raised in every process, so that none waits for another
        return None, error


def _value(outcome: Any) -> Any:
    value, error = outcome
    if error is not None:
        raise error
    return value


@dataclass(frozen=True)
class Together(Workers):
    """The first of several processes; what cannot be divided is trained by `others`."""

    group: Group
    others: Workers

    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        whole = [task for task in tasks if not task.training.method.divided]
        if whole:
            self.others.train(train, whole, report)
        for task in tasks:
            if task.training.method.divided:
                self._divided(train, task, report)

    def _divided(self, train: Train, task: Task, report: StepProgress) -> None:
        try:
            self.group.first(lambda: (train, task))
            train(task, report, None, self.group)
        except RuntimeError as error:
            if "gloo" not in str(error) and "NCCL" not in str(error):
                raise
            raise RuntimeError(
                f"{task.training.label}: a process that trained with this one has ended; "
                "the same command goes on from the last checkpoint"
            ) from error

    def first(self, task: Task) -> Sequence[Task]:
        return self.others.first(task)

    @property
    def at_once(self) -> int:
        return self.others.at_once

    def each(
        self, do: Callable[[T, StepProgress], R], items: Sequence[T], report: StepProgress
    ) -> list[R]:
        return self.others.each(do, items, report)


def _backends() -> str:
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


@contextlib.contextmanager
def together(number: int, opened: contextlib.AbstractContextManager[Workers]) -> Iterator[Workers]:
    """Open a group: that of torchrun, or `number` processes here, this one included.

    opened: the workers of what cannot be divided.
    """
    with opened as others, joined() if launched() is not None else started(number) as group:
        yield Together(group, others)
        group.first(lambda: None)


@contextlib.contextmanager
def started(number: int) -> Iterator[Group]:
    """Start the other processes here; they end with this one."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    members = [
        get_context("spawn").Process(target=_member, args=(rank, number, store.port), daemon=True)
        for rank in range(1, number)
    ]
    try:
        with starting():
            for member in members:
                member.start()
        dist.init_process_group(
            _backends(), store=store, rank=0, world_size=number, timeout=PATIENCE
        )
        yield Group()
        for member in members:
            member.join()
    finally:
        for member in members:
            member.kill()
        if dist.is_initialized():
            dist.destroy_process_group()


@contextlib.contextmanager
def joined() -> Iterator[Group]:
    """Enter the group that torchrun or `accelerate launch` describes in the environment."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group(_backends(), timeout=PATIENCE)
    yield Group()
    dist.destroy_process_group()


def serve_launched() -> None:
    """Serve as a process that torchrun or `accelerate launch` has started."""
    with joined() as group:
        serve(group)


def serve(group: Group) -> None:
    """Train what the first process trains, until it is done."""
    while (given := group.first(lambda: None)) is not None:
        train, task = given
        train(task, lambda label, share: None, None, group)


def _member(rank: int, number: int, port: int) -> None:
    """Serve as a process that the first has started."""
    end_with_parent()
    sys.tracebacklimit = 0  # the first says in one line what happened
    if torch.cuda.is_available():
        torch.cuda.set_device(rank % torch.cuda.device_count())
    store = TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group(
        _backends(), store=store, rank=rank, world_size=number, timeout=PATIENCE
    )
    with contextlib.suppress(RuntimeError):  # the first has ended
        serve(Group())
