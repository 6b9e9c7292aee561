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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.defense import Training
from audit.folder import key_of
from audit.models.loading import ModelFolder, load_tokenizer, load_weights
from audit.predictor import record_tokens

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

        t = self.training
        return key_of(
            "fine-tuning 1",
            (self.base.sha256, list(t.texts), dataclasses.asdict(t.recipe), t.seed),
            (self.device, self.threads, version("torch"), version("transformers")),
        )

    @property
    def path(self) -> Path:
        return self.stages / f"model-{self.key}.safetensors"


def train_all(tasks: Sequence[Task], workers: int, report: Report) -> None:
    """Trains what is not there yet, the longest first. workers=0: as many as there are cores."""
    missing = {task.path: task for task in tasks if task.training.texts and not task.path.exists()}
    order = sorted(missing.values(), key=lambda t: -sum(map(len, t.training.texts)))
    count = min(len(order), workers or os.cpu_count() or 1)
    if count <= 1 or order[0].device == "cuda":
        for task in order:
            _train(task, report)
    else:
        _train_in_pool(order, count, report)


def _train(task: Task, report: Report) -> None:
    import torch
    from safetensors.torch import save_model

    from audit.models.fine_tuning import fine_tune

    torch.set_num_threads(task.threads)
    tokenizer, public = _base(task.base, task.device)
    model = copy.deepcopy(public)
    label, last = task.training.label, [0.0]

    def progress(share: float) -> None:
        if time.monotonic() - last[0] > 0.3 or share >= 1:
            last[0] = time.monotonic()
            report(label, share)

    sequences = [record_tokens(tokenizer, text) for text in task.training.texts]
    fine_tune(model, sequences, task.training.recipe, task.training.seed, progress)
    partial = task.path.with_suffix(f".{os.getpid()}")
    save_model(model, str(partial))
    partial.replace(task.path)
    report(label, 1.0)


@lru_cache(maxsize=1)
def _base(folder: ModelFolder, device: str) -> tuple[TextTokenizer, PreTrainedModel]:
    """The public model, loaded once a process."""
    return load_tokenizer(folder), load_weights(folder.path, device)


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
