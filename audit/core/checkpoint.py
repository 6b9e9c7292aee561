"""Checkpoints: all that the next steps of a training depend on, to go on from after a kill."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, final

State = Mapping[str, Any]  # tensors and JSON values by name


class Checkpoint(ABC):
    """The last state of one training, and when the next one is to be saved."""

    @abstractmethod
    def load(self) -> State | None:
        """Return the last state; None: the training starts anew."""

    @abstractmethod
    def due(self) -> bool:
        """Return whether it is time to save."""

    @abstractmethod
    def save(self, state: State) -> None:
        """Save a state in place of the last one."""


@final
class NoCheckpoint(Checkpoint):
    """Saves nothing: the training always starts anew."""

    def load(self) -> State | None:
        return None

    def due(self) -> bool:
        return False

    def save(self, state: State) -> None:
        return None


NO_CHECKPOINT = NoCheckpoint()
