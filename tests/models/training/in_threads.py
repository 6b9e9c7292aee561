"""Several processes as threads of this one, which meet in memory; each has its own model."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from audit.core.processes import Processes

T = TypeVar("T")
PATIENCE = 60.0  # seconds until a process that waits alone gives up


@dataclass
class Room:
    """Where they meet."""

    number: int
    seats: list[Any] = field(init=False)
    barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        self.seats = [None] * self.number
        self.barrier = threading.Barrier(self.number, timeout=PATIENCE)

    def met(self, rank: int, brought: Any) -> list[Any]:
        """What everybody brought, by rank."""
        self.seats[rank] = brought
        self.barrier.wait()
        every = list(self.seats)
        self.barrier.wait()
        return every


class InThread(Processes):
    def __init__(self, room: Room, rank: int) -> None:
        self.rank, self.number, self._room = rank, room.number, room

    def first(self, do: Callable[[], T]) -> T:
        outcome: T = self._room.met(self.rank, do() if self.rank == 0 else None)[0]
        return copy.deepcopy(outcome)

    def every(self, do: Callable[[], Sequence[T]]) -> list[T]:
        try:
            brought: Any = list(do())
        except Exception as error:
            brought = error
        every = self._room.met(self.rank, brought)
        for one in every:
            if isinstance(one, Exception):
                raise one
        return [item for one in every for item in one]

    def add(self, tensors: Sequence[Tensor]) -> None:
        every = self._room.met(self.rank, [tensor.clone() for tensor in tensors])
        for place, tensor in enumerate(tensors):
            tensor.copy_(torch.stack([one[place] for one in every]).sum(dim=0))


def in_threads(number: int, do: Callable[[Processes], T]) -> list[T]:
    """What `do` returns in each of so many processes, which run at once."""
    room = Room(number)
    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(lambda rank: do(InThread(room, rank)), range(number)))
