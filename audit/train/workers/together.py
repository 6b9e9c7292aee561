"""Trains each model by several processes together, through torch.distributed.

The first process runs the audit. The others wait for a task, compute their part of its sums, and
wait for the next. `--processes N` starts them here; torchrun and `accelerate launch` start them on
any machines that see the run folder and the model under the same paths.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

import torch
from torch import distributed as dist
from torch.distributed import FileStore, Store  # type: ignore[attr-defined]

from audit.core.machine import launched
from audit.core.processes import Processes
from audit.core.progress import StepProgress
from audit.core.scratch import SHORT, scratch
from audit.train.task import Task
from audit.train.workers.group import LOST, MEETING, PATIENCE, Group, LostError, noticing
from audit.train.workers.place import R, Train, Workers
from audit.train.workers.pool import end_with_parent, starting

T = TypeVar("T")
JOINING = timedelta(hours=1)  # the same elsewhere: the first plans before
STARTED = "started"  # number of the others, in the store that all meet in
INTERFACE = "GLOO_SOCKET_IFNAME"
LOOPBACK = ("lo", "lo0")  # of Linux and of macOS


@dataclass(frozen=True)
class Together(Workers):
    """The first of several processes; what cannot be divided is trained by `others`.

    sharded: whether each of them holds a part of a frozen base.
    """

    group: Group
    others: Workers
    sharded: bool = False

    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        whole = [task for task in tasks if not task.training.method.divided]
        if whole:
            self.others.train(train, whole, report)
        for task in tasks:
            if task.training.method.divided:
                self._divided(train, task, report)

    def _divided(self, train: Train, task: Task, report: StepProgress) -> None:
        sharded = self.sharded and task.frozen_base
        self.group.first(lambda: (train, task, sharded))
        train(task, report, None, _holding(self.group, sharded))

    def first(self, task: Task) -> Sequence[Task]:
        return self.others.first(task)

    @property
    def at_once(self) -> int:
        return self.others.at_once

    def each(
        self, do: Callable[[T, StepProgress], R], items: Sequence[T], report: StepProgress
    ) -> list[R]:
        return self.others.each(do, items, report)


def _holding(group: Group, sharded: bool) -> Processes:
    """Return the processes that each hold a part of the model, or all of it."""
    if not sharded:
        return group
    from audit.train.workers.sharded import Shards  # FSDP, which takes most of a second

    return Shards(group)


def _backends() -> str:
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


@contextlib.contextmanager
def together(
    number: int, opened: contextlib.AbstractContextManager[Workers], sharded: bool = False
) -> Iterator[Workers]:
    """Open a group: that of torchrun, or `number` processes here, this one included.

    opened: the workers of what cannot be divided. sharded: as `Together`.
    """
    with opened as others, joined() if launched() is not None else started(number) as group:
        yield Together(group, others, sharded)
        with contextlib.suppress(LostError):  # nothing is left to train
            group.first(lambda: None)


@contextlib.contextmanager
def started(number: int) -> Iterator[Group]:
    """Start the other processes here; they end with this one.

    They meet in a folder of this user alone, and talk within this machine: they unpickle what they
    are told.
    """
    with scratch(SHORT) as private, _within_this_machine():
        place = str(private / "store")
        members: list[SpawnProcess] = []
        try:
            with starting():
                for rank in range(1, number):
                    member = get_context("spawn").Process(
                        target=_member, args=(rank, number, place), daemon=True
                    )
                    member.start()
                    members.append(member)
            store = FileStore(place, number)
            _await(store, members)
            _meet(MEETING, store=store, rank=0, world_size=number)
            yield Group()
            for member in members:
                member.join()
        finally:
            for member in members:
                member.kill()
            if dist.is_initialized():
                _leave()


@contextlib.contextmanager
def _within_this_machine() -> Iterator[None]:
    """Let groups that are opened in the block listen to this machine alone, unless told where."""
    names = {name for _, name in socket.if_nameindex()}
    if INTERFACE in os.environ or names.isdisjoint(LOOPBACK):
        yield
        return
    os.environ[INTERFACE] = next(name for name in LOOPBACK if name in names)
    try:
        yield
    finally:
        del os.environ[INTERFACE]


def _await(store: Store, members: Sequence[SpawnProcess]) -> None:
    """Wait until all have started. Raises LostError where one has ended before."""
    while store.add(STARTED, 0) < len(members):
        if not all(member.is_alive() for member in members):
            raise LostError(LOST)
        time.sleep(0.05)


def _meet(patience: timedelta, **where: Any) -> None:
    """Open the group; who meets waits for `patience`, who trains for longer."""
    with noticing():
        dist.init_process_group(_backends(), timeout=patience, **where)
    own = dist.group.WORLD
    assert own is not None
    own._get_backend(torch.device("cpu"))._set_default_timeout(PATIENCE)


def _leave() -> None:
    """Leave the group, whose threads end with it: one that outlived Python would abort it."""
    gc.collect()  # whatever refers to it
    dist.destroy_process_group()


@contextlib.contextmanager
def joined() -> Iterator[Group]:
    """Enter the group that torchrun or `accelerate launch` describes in the environment."""
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    _meet(JOINING)
    yield Group()
    _leave()


def serve_launched() -> None:
    """Serve as a process that torchrun or `accelerate launch` has started."""
    with joined() as group:
        serve(group)


def serve(group: Group) -> None:
    """Train what the first process trains, until it is done."""
    while (given := group.first(lambda: None)) is not None:
        train, task, sharded = given
        train(task, lambda label, share: None, None, _holding(group, sharded))


def _member(rank: int, number: int, place: str) -> None:
    """Serve as a process that the first has started."""
    end_with_parent()
    sys.tracebacklimit = 0  # the first says in one line what happened
    if torch.cuda.is_available():
        torch.cuda.set_device(rank % torch.cuda.device_count())
    store = FileStore(place, number)
    store.add(STARTED, 1)
    with contextlib.suppress(LostError):
        _meet(MEETING, store=store, rank=rank, world_size=number)
        group = Group()
        try:
            serve(group)
            _leave()
        except Exception:
            if not group.raised:  # else the first says it
                raise
