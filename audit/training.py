"""Trains members as independent tasks, wherever there are workers, each kept as a stage.

A task is keyed by the hash of all that determines its model, so a killed run goes on at the member
it was in, and two plans share what they share. The number of threads is fixed by the plan: where a
member is trained does not change it.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.defense import Training
from audit.folder import key_of
from audit.models.loading import ModelFolder, load_tokenizer, load_weights
from audit.models.method import NotFiniteError
from audit.workers import Report, opened

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from audit.models.loading import TextTokenizer


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
        from importlib.metadata import version

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


def train_all(tasks: Sequence[Task], workers: int | str, report: Report) -> None:
    """Trains what is not there yet.

    workers: a number of processes (0: one a core), "ray" or "ray://HOST:PORT".
    """
    rounds = _missing(tasks)
    first = next(rounds, None)
    if first is None:  # no place is opened for nothing
        return
    with opened(workers) as place:
        for independent in chain([first], rounds):
            place.train(_train, independent, report)


def _missing(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """What is not there when its round comes, the longest first; what others need comes before."""
    needed = [task for task in tasks if task.idle or not task.path.exists()]
    earlier = [before for task in needed for before in task.earlier]
    if earlier:
        yield from _missing(earlier)
    missing = {task.path: task for task in needed if not task.idle and not task.path.exists()}
    if missing:
        yield sorted(missing.values(), key=_work, reverse=True)


@dataclass(frozen=True)
class Lineup:
    """Trained models one after the other, each loaded when it is reached, in one place.

    places: where the weights lie; None: the public model's.
    """

    public: PreTrainedModel
    places: tuple[Path | None, ...]

    def __iter__(self) -> Iterator[PreTrainedModel]:
        from safetensors.torch import load_model

        model: Any = copy.deepcopy(self.public)
        for place in self.places:
            if place is None:
                yield self.public
            else:
                load_model(model, str(place), device=str(model.device))
                yield model


def _work(task: Task) -> float:
    """Characters read, over all passes."""
    return sum(map(len, task.training.texts)) * task.training.method.passes


def _train(task: Task, report: Report) -> None:
    import torch
    from safetensors.torch import load_model, save_model

    torch.set_num_threads(task.threads)
    tokenizer, public = _base(task.base, task.device)
    model = copy.deepcopy(public)
    start = None if task.before is None else trained_by(task.before)
    if start is not None:
        load_model(model, str(start), device=task.device)
    label, last = task.training.label, [0.0]

    def progress(share: float) -> None:
        if share < 1 and time.monotonic() - last[0] > 0.3:
            last[0] = time.monotonic()
            report(label, share)

    try:
        teachers = Lineup(public, tuple(map(trained_by, task.teachers)))
        training = dataclasses.replace(task.training, key=task.key)
        training.method.train(model, tokenizer, training, progress, teachers)
    except NotFiniteError as error:
        raise NotFiniteError(f"{label}: {error}; what is already trained is kept") from None
    partial = task.path.with_suffix(f".{os.getpid()}")
    save_model(model, str(partial))
    partial.replace(task.path)
    report(label, 1.0)


@lru_cache(maxsize=1)
def _base(folder: ModelFolder, device: str) -> tuple[TextTokenizer, PreTrainedModel]:
    """The public model, loaded once a process."""
    return load_tokenizer(folder), load_weights(folder, device)
