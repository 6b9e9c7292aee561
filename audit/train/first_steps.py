"""Measure the first steps of a training, on its own texts: what the whole of it takes.

Nothing of these steps is kept. Trainings that differ in their texts alone are measured once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from audit.core.model import ModelFolder, PreTrainedModel, TextTokenizer
from audit.core.training import Method, Models
from audit.models.adapters import fresh
from audit.models.measuring import Peak, measured
from audit.train.task import Task

STEPS = 4  # the first of which is not timed: it is watched, and finds nothing ready
LONG = 2.0  # seconds of a timed step after which no other is made


@dataclass(frozen=True)
class Cost:
    """Cost of a training: seconds a token, and the most bytes of tensors beside its weights."""

    seconds: float
    memory: float


@dataclass(frozen=True)
class _Shape:
    """Facts that the cost of a training's token follows from, and one training of this shape."""

    method: Method
    base: ModelFolder
    device: str
    threads: int
    task: Task = field(compare=False)
    tokenizer: TextTokenizer = field(compare=False)


class _EnoughError(Exception):
    """Enough steps were made."""


def cost_of(task: Task, tokenizer: TextTokenizer) -> Cost:
    """Measure a training of this task's shape, once in a process."""
    method = task.training.method
    return _cost(_Shape(method, task.base, task.device, task.threads, task, tokenizer))


@lru_cache(maxsize=256)
def _cost(shape: _Shape) -> Cost:
    task, tokenizer = shape.task, shape.tokenizer
    seconds, memory = measured(
        shape.base, shape.device, shape.threads, lambda public: _steps(public, task, tokenizer)
    )
    tokens = sum(map(tokenizer.predicted, task.training.texts)) * shape.method.passes
    return Cost(seconds / max(1.0, tokens), memory)


def _steps(public: PreTrainedModel, task: Task, tokenizer: TextTokenizer) -> tuple[float, float]:
    """Make the first steps: (seconds of the whole training, most bytes)."""
    model = fresh(public, task.base.lora, task.training.seed)
    training = dataclasses.replace(task.training, key="first steps")
    reports = [(time.perf_counter(), 0.0)]
    with contextlib.ExitStack() as watched, contextlib.suppress(_EnoughError):
        peak = watched.enter_context(Peak())

        def progress(share: float) -> None:
            watched.close()
            reports.append((time.perf_counter(), share))
            long = len(reports) > 2 and reports[-1][0] - reports[-2][0] > LONG
            if long or len(reports) > STEPS:
                raise _EnoughError

        teachers = Models([public] * len(task.teachers))
        training.method.train(model, tokenizer, training, progress, teachers)
    # the second step holds the optimizer's moments, too, which the first one left
    return _whole(reports), float(peak.most + peak.held)


def _whole(reports: Sequence[tuple[float, float]]) -> float:
    """Compute the seconds of all steps from the times at which shares of them were done."""
    timed = reports[1:] if len(reports) > 2 else reports
    (began, before), (ended, after) = timed[0], timed[-1]
    return (ended - began) / (after - before) if after > before else 0.0
