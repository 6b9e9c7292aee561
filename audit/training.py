"""Trains members as independent tasks, in process or in a pool, each kept as a stage.

A task is keyed by the hash of all that determines its model, so a killed run goes on at the member
it was in, and two plans share what they share. The number of threads is fixed by the plan: where a
member is trained does not change it.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.defense import Training
from audit.folder import key_of
from audit.models.loading import ModelFolder, load_tokenizer, load_weights
from audit.models.method import NotFiniteError

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

    from transformers import PreTrainedModel

    from audit.models.loading import TextTokenizer

Report = Callable[[str, float], None]  # label, share done from 0 to 1


@dataclass(frozen=True)
class Task:
    """A training, the model it starts from, and where its weights go."""

    training: Training
    base: ModelFolder
    device: str
    threads: int
    stages: Path

    @property
    def key(self) -> str:
        """Hash of everything that determines the weights, versions included."""
        from importlib.metadata import version

        return key_of(
            "training 3",
            (self.base.sha256, self.training.digest),
            (self.device, self.threads, version("torch"), version("transformers")),
        )

    @property
    def before(self) -> Task | None:
        """The task that this one continues."""
        after = self.training.after
        return None if after is None else dataclasses.replace(self, training=after)

    @property
    def teachers(self) -> tuple[Task, ...]:
        """The tasks whose models this one asks."""
        return tuple(dataclasses.replace(self, training=t) for t in self.training.teachers)

    @property
    def idle(self) -> bool:
        """Whether its model is the one it starts from."""
        return self.training.method.idle(self.training)

    @property
    def path(self) -> Path:
        return self.stages / f"model-{self.key}.safetensors"


def trained_by(task: Task) -> Path | None:
    """Where the weights of a task lie; None where they are the public model's."""
    if not task.idle:
        return task.path
    return None if task.before is None else trained_by(task.before)


def train_all(tasks: Sequence[Task], workers: int, report: Report) -> None:
    """Trains what is not there yet, the longest first. workers=0: as many as there are cores."""
    needed = [task for task in tasks if task.idle or not task.path.exists()]
    earlier = [task.before for task in needed if task.before is not None]
    earlier += [teacher for task in needed for teacher in task.teachers]
    if earlier:
        train_all(earlier, workers, report)
    missing = {task.path: task for task in needed if not task.idle and not task.path.exists()}
    order = sorted(missing.values(), key=_work, reverse=True)
    count = min(len(order), workers or os.cpu_count() or 1)
    if count <= 1 or order[0].device == "cuda":
        for task in order:
            _train(task, report)
    else:
        _train_in_pool(order, count, report)


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
        if time.monotonic() - last[0] > 0.3 or share >= 1:
            last[0] = time.monotonic()
            report(label, share)

    try:
        teachers = Lineup(public, tuple(map(trained_by, task.teachers)))
        task.training.method.train(model, tokenizer, task.training, progress, teachers)
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


def _train_in_pool(tasks: Sequence[Task], workers: int, report: Report) -> None:
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from multiprocessing import get_context

    context = get_context("spawn")
    queue: Any = context.SimpleQueue()
    pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(queue,))
    try:
        waiting = {pool.submit(_train_in_worker, task) for task in tasks}
        while waiting:
            done, waiting = wait(waiting, timeout=0.3, return_when=FIRST_COMPLETED)
            while not queue.empty():
                report(*queue.get())
            for future in done:
                future.result()
        pool.shutdown()
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


_reports: SimpleQueue[tuple[str, float]] | None = None  # set in workers only


def _start_worker(queue: SimpleQueue[tuple[str, float]]) -> None:
    global _reports
    _reports = queue
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    parent = os.getppid()
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()


def _die_with(parent: int) -> None:
    """A killed run leaves no worker behind."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _train_in_worker(task: Task) -> None:
    assert _reports is not None
    _train(task, lambda label, share: _reports.put((label, share)))
