"""Trains tasks wherever there are workers, each kept as a stage.

The plan fixes the number of threads, so where a task is trained does not change its weights.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from transformers import PreTrainedModel

from audit.core.model import ModelFolder, TextTokenizer
from audit.core.training import NotFiniteError
from audit.models.loading import load_tokenizer, load_weights
from audit.train.task import Task, trained_by
from audit.train.workers.choice import opened
from audit.train.workers.place import Report


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
