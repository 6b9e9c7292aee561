"""Names a training task by the hash of all that determines its model.

A killed run goes on at the task it was in, and two plans share the tasks they share.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from audit.core.digest import key_of
from audit.core.model import ModelFolder
from audit.core.training import Training


@dataclass(frozen=True)
class Task:
    """A training, the model it starts from, and where its weights go."""

    training: Training
    base: ModelFolder
    device: str
    threads: int
    stages: Path

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the weights, versions included."""
        return key_of(
            "training 4",
            (self.base.sha256, self.training.digest),
            (self.device, self.threads, version("torch"), version("transformers")),
        )

    @cached_property
    def before(self) -> Task | None:
        """The task that this one continues."""
        after = self.training.after
        return None if after is None else dataclasses.replace(self, training=after)

    @cached_property
    def teachers(self) -> tuple[Task, ...]:
        """The tasks whose models this one asks."""
        return tuple(dataclasses.replace(self, training=t) for t in self.training.teachers)

    @property
    def earlier(self) -> tuple[Task, ...]:
        """The tasks that must come before: those that it asks, and the one it continues."""
        return (*self.teachers, *([self.before] if self.before else []))

    @property
    def needed(self) -> tuple[Task, ...]:
        """All tasks that come before, however far."""
        return tuple(task for one in self.earlier for task in (one, *one.needed))

    @property
    def idle(self) -> bool:
        """Whether its model is the one it starts from."""
        return self.training.method.idle(self.training)

    @property
    def path(self) -> Path:
        return self.stages / f"model-{self.key}.safetensors"

    @property
    def sources(self) -> tuple[Path, ...]:
        """The weights that it starts from or asks, the public model's aside."""
        return tuple(dict.fromkeys(path for task in self.earlier if (path := trained_by(task))))


def trained_by(task: Task) -> Path | None:
    """Where the weights of a task lie; None where they are the public model's."""
    if not task.idle:
        return task.path
    return None if task.before is None else trained_by(task.before)
