"""Tasks in processes of this machine, started when the first task needs them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from audit.workers import Report, Train, Workers

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.queues import SimpleQueue

    from audit.training import Task


@dataclass(frozen=True)
class Pool(Workers):
    """Processes that load the public model once each, and what they report through."""

    executor: ProcessPoolExecutor
    reports: SimpleQueue[tuple[str, float]]

    def train(self, train: Train, tasks: Sequence[Task], report: Report) -> None:
        from concurrent.futures import FIRST_COMPLETED, wait

        if len(tasks) == 1 or tasks[0].device == "cuda":  # one model, or one GPU: nothing to share
            for task in tasks:
                train(task, report)
            return
        waiting = {self.executor.submit(_train_in_worker, train, task) for task in tasks}
        while waiting:
            done, waiting = wait(waiting, timeout=0.3, return_when=FIRST_COMPLETED)
            while not self.reports.empty():
                report(*self.reports.get())
            for future in done:
                future.result()


@contextlib.contextmanager
def pool(count: int) -> Iterator[Pool]:
    """At most `count` processes; an error or an interrupt ends them all."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    context = get_context("spawn")
    queue: Any = context.SimpleQueue()
    executor = ProcessPoolExecutor(count, context, initializer=_start_worker, initargs=(queue,))
    try:
        yield Pool(executor, queue)
        executor.shutdown()
    except BaseException:
        for process in list((executor._processes or {}).values()):
            process.terminate()
        executor.shutdown(wait=False, cancel_futures=True)
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


def _train_in_worker(train: Train, task: Task) -> None:
    assert _reports is not None
    reports = _reports
    train(task, lambda label, share: reports.put((label, share)))
