"""Trains tasks in processes of this machine, started with the first task.

They share a GPU, because one process with a small model leaves most of it idle.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.queues import SimpleQueue
from typing import Any

import torch

from audit.core.progress import StepProgress
from audit.core.safe_path import children_leave_it_out
from audit.train.task import Task
from audit.train.workers.place import R, T, Train, Workers

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ALL = 1 << 30
_CONTEXT = 1 << 30  # bytes, an upper estimate of what CUDA uses per process


@dataclass(frozen=True)
class Pool(Workers):
    """Processes that load the public model once each, and the queue of their progress."""

    executor: ProcessPoolExecutor
    reports: SimpleQueue[tuple[str, float]]
    count: int

    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        at_once = min(len(tasks), fitting_on_the_gpu(tasks) if tasks[0].device == "cuda" else _ALL)
        if at_once == 1:  # no process is needed
            for task in tasks:
                train(task, report)
            return
        self._in_workers(train, tasks, report, at_once)

    @property
    def at_once(self) -> int:
        return self.count

    def each(
        self, do: Callable[[T, StepProgress], R], items: Sequence[T], report: StepProgress
    ) -> list[R]:
        return self._in_workers(do, items, report, self.count)

    def _in_workers(
        self,
        do: Callable[[T, StepProgress], R],
        items: Sequence[T],
        report: StepProgress,
        at_once: int,
    ) -> list[R]:
        """Hand out the items, at most so many at once; an error ends the others, too."""
        left, waiting = iter(items), set[Future[R]]()
        every: list[Future[R]] = []
        while True:
            with starting():  # the first items start the processes
                for item in islice(left, at_once - len(waiting)):
                    every.append(self.executor.submit(_done_in_worker, do, item))
                    waiting.add(every[-1])
            if not waiting:
                return [future.result() for future in every]
            done, waiting = wait(waiting, timeout=0.3, return_when=FIRST_COMPLETED)
            while not self.reports.empty():
                report(*self.reports.get())
            for future in done:
                future.result()


def fitting_on_the_gpu(tasks: Sequence[Task]) -> int:
    """Estimate how many of these tasks fit into the GPU's free memory at once; at least one.

    A process holds CUDA's context and, for the largest model, five copies (public, trained,
    gradients, two moments), the logits of a batch three times, and as much for activations.
    """
    free, _ = torch.cuda.mem_get_info()
    largest = max(tasks, key=lambda task: task.base.parameters).base
    sizes = ("batch_tokens", "physical_tokens")
    batch = max(getattr(task.training.method, size, 0) for task in tasks for size in sizes)
    values = 5 * largest.parameters + 6 * max(batch, largest.max_length) * largest.vocabulary
    return max(1, int(0.9 * free) // (_CONTEXT + 4 * values))


@contextlib.contextmanager
def pool(count: int) -> Iterator[Pool]:
    """Start at most `count` processes; an error or an interrupt ends them all."""
    context = get_context("spawn")
    with starting():  # this starts the process that counts semaphores
        queue: Any = context.SimpleQueue()
        executor = ProcessPoolExecutor(count, context, initializer=_start_worker, initargs=(queue,))
    try:
        yield Pool(executor, queue, count)
        executor.shutdown()
    except BaseException:
        for process in list((executor._processes or {}).values()):
            process.kill()
        executor.shutdown(wait=False, cancel_futures=True)
        raise


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Start processes with a safe path; hold back signals until the block ends, for them for ever.

    Signals often reach the whole process group. This process decides what they mean, and ends its
    workers itself.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        with children_leave_it_out():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_reports: SimpleQueue[tuple[str, float]] | None = None  # set in workers only


def _start_worker(queue: SimpleQueue[tuple[str, float]]) -> None:
    global _reports
    _reports = queue
    end_with_parent()


def end_with_parent() -> None:
    """End this process when its parent has ended, also by a kill before it was ready."""
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _done_in_worker(do: Callable[[T, StepProgress], R], item: T) -> R:
    assert _reports is not None
    reports = _reports
    return do(item, lambda label, share: reports.put((label, share)))
