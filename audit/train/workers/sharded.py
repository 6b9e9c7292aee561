"""Processes that each hold a part of a frozen base, by FSDP 2 of PyTorch.

Every block of a transformer is divided, its adapters excepted. Before a block is read, forward or
back, all processes give each other their parts of it, and drop them afterwards. So all must make
equally many passes: one with fewer examples makes passes over nothing until the others are done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar, final

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import DistError
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from audit.core.errors import UsageError
from audit.core.processes import Processes
from audit.core.training import NotFiniteError
from audit.models.head import AT_ONCE, head_for
from audit.models.layers import blocks
from audit.models.training.per_example_gradients import trainable
from audit.train.models import public_model
from audit.train.workers.group import LOST, MEETING, PATIENCE, LostError, noticing

T = TypeVar("T")


@final
class Shards(Processes):
    """The processes of a group, of which each holds a part of every block of one model."""

    def __init__(self, group: Processes) -> None:
        self.rank, self.number = group.rank, group.number
        self._group = group
        self._idle = False

    def first(self, do: Callable[[], T]) -> T:
        return self._group.first(do)

    def every(self, do: Callable[[], Sequence[T]]) -> list[T]:
        return self._group.every(do)

    def add(self, tensors: Sequence[Tensor]) -> None:
        self._group.add(tensors)

    def hold(self, load: Callable[[str], Any], device: str) -> Any:
        """Load a model in one process after the other, so that one alone has it whole.

        Raises UsageError where its blocks are not found.
        """
        mesh, held = _mesh(self._group, device), list[Any]()

        def in_turn(turn: int) -> list[Any]:
            if turn == self.rank:
                held.append(self._divided(load("cpu"), mesh))
                public_model.cache_clear()  # of the whole base nothing is left
            return []

        for turn in range(self.number):
            self.every(partial(in_turn, turn))
        return held[0].to(device)

    def _divided(self, model: Any, mesh: DeviceMesh) -> Any:
        """Divide the frozen weights of every block, and announce each pass over the first one."""
        every = blocks(model)
        stated = getattr(model.config.get_text_config(), "num_hidden_layers", 0)
        if not every or len(every) != stated:
            raise UsageError(
                f"--sharded: {len(every)} of {stated} blocks are found in this model; leave it out"
            )
        head_for(model, AT_ONCE + 1)  # is tried once, and from now on a pass would need all
        for block in every:
            own = set(trainable(block))
            fully_shard(block, mesh=mesh, reshard_after_forward=True, ignored_params=own)  # type: ignore[arg-type]
        for tensor in (*model.parameters(), *model.buffers()):
            if not isinstance(tensor, DTensor):  # else it keeps the file of all weights mapped
                tensor.data = tensor.data.clone()
        every[0].register_forward_pre_hook(self._announce, prepend=True)  # before its parts are met
        return model

    def _announce(self, *_: object) -> None:
        if not self._idle:
            self._reading(True)

    def _reading(self, own: bool) -> bool:
        """Meet at the beginning of a pass; return whether anybody still reads."""
        reading = torch.tensor([own], dtype=torch.long)
        self.add([reading])
        return bool(reading)

    def in_step(self, do: Callable[[], Sequence[T]], idle: Callable[[], object]) -> list[T]:
        """Call `do` in every process, whose passes meet; who is done makes `idle` ones.

        A loss that is not finite is raised in all. Any other error may have ended a pass that the
        others are in: it ends this process, and they notice.
        """
        items: Sequence[T] = ()
        bad: NotFiniteError | None = None
        with _noticing():
            try:
                items = do()
            except NotFiniteError as error:
                bad = error
            self._idle = True
            while self._reading(False):
                idle()
            self._idle = False

        def outcome() -> Sequence[T]:
            if bad is not None:
                raise bad
            return items

        return self.every(outcome)


@lru_cache(maxsize=1)
def _mesh(group: Processes, device: str) -> DeviceMesh:
    """Open the processes' own group for blocks, once in a run: PyTorch keeps it for ever.

    Opening it notices no process that has ended, so that waits only while all are about to.
    """
    group.every(lambda: [])
    with noticing():
        own = dist.new_group(timeout=MEETING)
    _set_pg_timeout(PATIENCE, own)
    return DeviceMesh.from_group(own, device)


@contextlib.contextmanager
def _noticing() -> Iterator[None]:
    """Raise LostError where a process that holds a part has ended; leave other errors alone."""
    try:
        yield
    except LostError:
        raise
    except RuntimeError as error:
        if isinstance(error, DistError) or "gloo" in str(error):
            raise LostError(LOST) from error
        raise
