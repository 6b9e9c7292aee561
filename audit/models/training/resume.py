"""Goes on from a checkpoint to the same bytes as those of a training that was never killed.

A part is something that steps change and later steps depend on. What follows from the seed alone,
as the order of batches, is not stored: it is computed again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from audit.core.checkpoint import NO_CHECKPOINT, Checkpoint, State
from audit.core.counts import Counts
from audit.core.noise import NoiseStream
from audit.core.processes import ALONE, Processes
from audit.models.adapters import is_adapted

_STEPS = "steps"


class Part(ABC):
    """A part of a training's state."""

    @property
    def repeatable(self) -> bool:
        """Return whether it may be saved; else its training always starts anew."""
        return True

    @abstractmethod
    def state(self) -> State:
        """Return its tensors and JSON values by name."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Restore a result of `state`."""


@final
class Weights(Part):
    """The trained part of a model: all, its last blocks, or adapters; and what it counts beside.

    A frozen base has nothing that changes.
    """

    def __init__(self, model: nn.Module) -> None:
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self._buffers = {} if is_adapted(model) else dict(model.named_buffers())
        self._tensors: dict[str, Tensor] = trained | self._buffers

    def state(self) -> State:
        # buffers may share memory, which the format refuses
        return self._tensors | {name: one.clone() for name, one in self._buffers.items()}

    def restore(self, state: State) -> None:
        with torch.no_grad():
            for name, tensor in self._tensors.items():
                tensor.copy_(state[name])


@final
class Moments(Part):
    """The state of an optimizer; its settings follow from the method."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer

    def state(self) -> State:
        of_each = self._optimizer.state_dict()["state"]
        return {
            f"{i}.{key}": value for i, of_one in of_each.items() for key, value in of_one.items()
        }

    def restore(self, state: State) -> None:
        of_each: dict[int, dict[str, Any]] = {}
        for name, value in state.items():
            i, _, key = name.partition(".")
            of_each.setdefault(int(i), {})[key] = value.clone()
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": of_each, "param_groups": groups})


@final
class Counting(Part):
    """The counts of what was learnt from so far."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def state(self) -> State:
        return self._counts.state()

    def restore(self, state: State) -> None:
        self._counts.restore(dict(state))


@final
class GlobalRandomness(Part):
    """The generators of dropout: of the CPU, and of the model's GPU if it is on one."""

    def __init__(self, device: torch.device) -> None:
        self._gpu = device if device.type == "cuda" else None

    def state(self) -> State:
        on_gpu = {} if self._gpu is None else {"gpu": torch.cuda.get_rng_state(self._gpu)}
        return {"cpu": torch.get_rng_state(), **on_gpu}

    def restore(self, state: State) -> None:
        torch.set_rng_state(state["cpu"])
        if self._gpu is not None:
            torch.cuda.set_rng_state(state["gpu"], self._gpu)


@final
class Draws(Part):
    """A stream of privacy noise, where its seed decides every draw.

    Noise of the operating system cannot be repeated: its key is never written down. Steps that were
    done since a checkpoint would be done again with other noise, and two runs of noise on the same
    steps are two releases.
    """

    def __init__(self, stream: NoiseStream) -> None:
        self._stream = stream

    @property
    def repeatable(self) -> bool:
        return isinstance(self._stream, np.random.Generator)

    def state(self) -> State:
        assert isinstance(self._stream, np.random.Generator)
        return {"drawn": self._stream.bit_generator.state}

    def restore(self, state: State) -> None:
        assert isinstance(self._stream, np.random.Generator)
        self._stream.bit_generator.state = state["drawn"]


@final
class Resume:
    """Restores the parts of a training, and saves them where a checkpoint is due.

    Of several processes the first saves, and reads for all: so another number may go on.
    """

    def __init__(
        self,
        checkpoint: Checkpoint = NO_CHECKPOINT,
        processes: Processes = ALONE,
        **parts: Part,
    ) -> None:
        """parts: by name; `begin` takes those that are made later."""
        self._checkpoint = checkpoint
        self._processes = processes
        self._parts = parts

    def begin(self, **parts: Part) -> int:
        """Restore all parts; return the number of steps that are done, 0 for a new training."""
        self._parts = {**self._parts, **parts}
        if not all(part.repeatable for part in self._parts.values()):
            self._checkpoint = NO_CHECKPOINT
        state = self._processes.first(self._checkpoint.load)
        if state is None:
            return 0
        for name, part in self._parts.items():
            own = {k: v for k, v in state.items() if k.startswith(f"{name}/")}
            part.restore({k.removeprefix(f"{name}/"): v for k, v in own.items()})
        return int(state[_STEPS])

    def after(self, steps: int) -> None:
        """Save the training where it is due, after this number of steps."""
        if self._processes.rank == 0 and self._checkpoint.due():
            parts = self._parts.items()
            state = {f"{name}/{k}": v for name, part in parts for k, v in part.state().items()}
            self._checkpoint.save({_STEPS: steps, **state})
