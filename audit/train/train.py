"""Trains tasks on workers and writes the weights of each to its own file.

The plan fixes the number of threads, so the choice of workers does not change any weights.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from safetensors.torch import save_file, save_model

from audit.core import stages
from audit.core.counts import Counts
from audit.core.errors import UsageError
from audit.core.machine import launched
from audit.core.model import PreTrainedModel
from audit.core.processes import ALONE, Processes
from audit.core.progress import Remark, StepProgress
from audit.core.training import NO_TEACHERS, BestStep, NotFiniteError, Teachers
from audit.models import this_process
from audit.models.adapters import fresh, is_adapted, own_weights, put, read_weights
from audit.models.loading import files_hash, load_tokenizer
from audit.train import counted
from audit.train.checkpoint import FileCheckpoint
from audit.train.models import TrainedModels, public_model
from audit.train.task import SHARE, Task, weights_path
from audit.train.workers.choice import open_workers
from audit.train.workers.place import Workers
from audit.train.workers.serial import Serial
from audit.train.workers.together import together


def train_all(tasks: Sequence[Task], workers: int | str, report: StepProgress) -> None:
    """Train every task whose weights are not there yet, and the tasks before it.

    workers: a number of processes (0: one a core), "ray" or "ray://HOST:PORT".
    """
    if next(_missing(tasks, Serial()), None) is not None:
        with workers_for(tasks, workers) as place:
            train_on(place, tasks, report)


def workers_for(
    tasks: Sequence[Task], workers: int | str, processes: int = 1, sharded: bool = False
) -> contextlib.AbstractContextManager[Workers]:
    """Open workers; only processes, which start when they are used, if no weights are missing.

    processes: how many train each missing model whose method can be divided. sharded: whether each
        of these holds a part of a frozen base.
    """
    missing = [task for alike in _missing(tasks, Serial()) for task in alike]
    place = open_workers(workers if missing or isinstance(workers, int) else 1)
    divided = any(task.training.method.divided for task in missing)
    several = launched() is not None or (processes > 1 and divided)
    return together(processes, place, sharded) if several else place


def train_on(place: Workers, tasks: Sequence[Task], report: StepProgress) -> None:
    """Train every task whose weights are not there yet on these workers, as `train_all` does."""
    for independent in _missing(tasks, place):
        place.train(_train, independent, report)


def _missing(tasks: Sequence[Task], place: Workers) -> Iterator[list[Task]]:
    """Yield rounds of tasks without weights: earlier tasks first, in a round the longest."""
    wanted = [task for task in tasks if task.idle or not task.path.exists()]
    earlier = [before for task in wanted for before in place.first(task)]
    if earlier:
        yield from _missing(earlier, place)
    missing = {task.path: task for task in wanted if not task.idle and not task.path.exists()}
    if missing:
        yield sorted(missing.values(), key=_work, reverse=True)


def _save(
    model: PreTrainedModel, best: BestStep | None, learnt: counted.Counted, task: Task
) -> None:
    """Write the best step and what was learnt from, and then the weights: they end the task."""
    with stages.replacing(task.path) as weights:
        _write(model, weights)
        if best is not None:
            if is_adapted(model):
                put(model, best.weights)
            else:
                model.load_state_dict(dict(best.weights))
            with stages.replacing(task.best_path) as whole:
                _write(model, whole, {SHARE: repr(best.share)})
        if not task.repeatable:
            stages.write(task.draws_path, b"." * (task.draws + 1))
        counted.write(learnt, task.counted_path)


def _write(model: PreTrainedModel, path: Path, about: dict[str, str] | None = None) -> None:
    """Write adapters alone where there are some, else all weights, shared ones once."""
    if is_adapted(model):
        save_file(own_weights(model), path, about)
    else:
        save_model(model, str(path), about)


def _work(task: Task) -> float:
    """Estimate the work of a task: characters read, over all passes."""
    return sum(map(len, task.training.texts)) * task.training.method.passes


def _fresh(task: Task, device: str) -> PreTrainedModel:
    """Make the model that a task starts from."""
    _, public = public_model(task.base, device)
    model = fresh(public, task.base.lora, task.training.seed)
    start = None if task.before is None else weights_path(task.before)
    if start is not None:
        read_weights(model, start, device)
    return model


def _teachers(task: Task) -> Teachers:
    if not task.teachers:
        return NO_TEACHERS  # and the base is kept for nobody
    _, public = public_model(task.base, task.device)
    return TrainedModels(public, tuple(map(weights_path, task.teachers)), task.base.lora)


def _check_alike(task: Task, processes: Processes) -> None:
    """Raise UsageError, in all, where one has other code or another model than the first.

    What is trained does not show it: a frozen base and a tokenizer are no part of it.
    """

    def own() -> tuple[str, str]:
        return dataclasses.replace(task).key, files_hash(task.base)

    first = processes.first(own)

    def check() -> list[None]:
        if own() != first:
            raise UsageError(
                f"process {processes.rank} has another model in {task.base.path}, or other "
                "versions of audit and its libraries, than process 0; give all the same"
            )
        return []

    processes.every(check)


def _train(
    task: Task,
    report: StepProgress,
    teachers: Teachers | None = None,
    processes: Processes = ALONE,
) -> None:
    this_process.prepare(task.threads)
    if processes.number > 1:
        _check_alike(task, processes)
    tokenizer = load_tokenizer(task.base)
    model = processes.hold(partial(_fresh, task), task.device)
    label, last = task.training.label, [0.0]

    def progress(share: float) -> None:
        if share < 1 and time.monotonic() - last[0] > 0.3:
            last[0] = time.monotonic()
            report(label, share)

    try:
        teachers = teachers or _teachers(task)
        checkpoint = FileCheckpoint(task, lambda line: report(Remark(f"{label}: {line}"), 0.0))
        counts, before = Counts(), counted.weights_digest(model)
        training = dataclasses.replace(
            task.training,
            key=task.key,
            checkpoint=checkpoint,
            counts=counts,
            processes=processes,
        )
        best = training.method.train(model, tokenizer, training, progress, teachers)
    except NotFiniteError as error:
        raise NotFiniteError(f"{label}: {error}; models already trained are reused") from None
    if len(set(processes.every(lambda: [counted.weights_digest(model)]))) > 1:
        raise RuntimeError(f"{label}: the processes ended with different weights")
    if processes.rank == 0:
        _save(model, best, counted.counted_of(before, model, counts), task)
        checkpoint.remove()
        report(label, 1.0)
