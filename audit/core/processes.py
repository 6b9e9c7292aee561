"""Processes that train one model together, each with the same data and the same weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

from torch import Tensor

T = TypeVar("T")


class Processes(ABC):
    """The processes of one training. All call the same methods in the same order.

    rank: number of this process, 0 for the first. number: how many there are.
    """

    rank: int
    number: int

    @abstractmethod
    def first(self, do: Callable[[], T]) -> T:
        """Call `do` in the first process, and return its result in all of them."""

    @abstractmethod
    def every(self, do: Callable[[], Sequence[T]]) -> list[T]:
        """Call `do` in every process, and return all items, by rank; what one raises, all raise."""

    @abstractmethod
    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over the processes; the same bits in all of them."""

    def hold(self, load: Callable[[str], Any], device: str) -> Any:
        """Load a model onto a device, in every process: whole, or this process's part of it.

        load: from a device to the whole model, the same in all of them.
        """
        return load(device)

    def in_step(self, do: Callable[[], Sequence[T]], idle: Callable[[], object]) -> list[T]:
        """Call `do`, which reads the model that is held, as `every` does.

        idle: a pass over the model that changes nothing, for whoever is done before the others
            where these need its part.
        """
        return self.every(do)

    def align(self, tensors: Sequence[Tensor]) -> None:
        """Give all processes the first one's values."""
        if self.rank:
            for tensor in tensors:
                tensor.zero_()
        self.add(tensors)

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Return the items that this process computes: each belongs to one process, whole."""
        return items[self.rank :: self.number]


@final
class Alone(Processes):
    """One process, which has nobody to ask."""

    rank, number = 0, 1

    def first(self, do: Callable[[], T]) -> T:
        return do()

    def every(self, do: Callable[[], Sequence[T]]) -> list[T]:
        return list(do())

    def add(self, tensors: Sequence[Tensor]) -> None:
        return None


ALONE = Alone()
