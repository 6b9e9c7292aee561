"""Work of a Ray worker: it trains a task, or asks its model; nothing is left on its disk."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from safetensors.torch import save

from audit.core import stage_key
from audit.core.errors import UsageError
from audit.core.scratch import remove_abandoned, scratch
from audit.core.training import Question
from audit.core.writing import make_folder, write_atomically
from audit.models import this_process
from audit.train.models import TrainedModels, public_model
from audit.train.task import Task
from audit.train.workers.place import Train

ANSWER = "answer"  # its name in the file of a teacher's answer


def train_remotely(
    train: Train,
    task: Task,
    model: Sequence[Any],
    sources: Sequence[tuple[str, Any]],
    place: Path | None,
) -> dict[str, bytes]:
    """Train a task on this worker and return its weights.

    By name of the file: what it learnt from and its best step, if any, before its own.
    """
    import ray

    with _brought(task, model, place) as there:
        for name, weights in sources:
            write_atomically(there.stages / name, ray.get(weights), private=True)
        train(there, _silent)
        every = (there.counted_path, there.best_path, there.path)
        files = [path for path in every if path.exists()]
        return {path.name: path.read_bytes() for path in files}


def train_and_ask(
    train: Train,
    task: Task,
    model: Sequence[Any],
    question: Sequence[Any],
    place: Path | None,
) -> tuple[tuple[bytes, bytes], bytes]:
    """Train a teacher on this worker; return its answer with what it learnt from, and its weights
    apart from them."""
    with _brought(task, model, place) as there:
        train(there, _silent)
        learnt = there.counted_path.read_bytes()
        return (_answer(there, question), learnt), there.path.read_bytes()


def ask_again(
    task: Task,
    model: Sequence[Any],
    weights: bytes,
    question: Sequence[Any],
    place: Path | None,
) -> tuple[bytes, None]:
    """Return the answer of a teacher with these weights, of which it is known what it learnt."""
    with _brought(task, model, place) as there:
        write_atomically(there.path, weights, private=True)
        return _answer(there, question), None


def _answer(task: Task, question: Sequence[Any]) -> bytes:
    import ray

    asked: Question = ray.get(question[0])
    this_process.prepare(task.threads)
    _, public = public_model(task.base, task.device)
    (values,) = TrainedModels(public, (task.path,), task.base.lora).answers(asked)
    content: bytes = save({ANSWER: values})
    return content


@contextlib.contextmanager
def _brought(task: Task, model: Sequence[Any], place: Path | None) -> Iterator[Task]:
    """Bring a task and its public model to a folder of this machine, until the block ends."""
    import ray

    parent = place or Path(gettempdir())
    remove_abandoned(parent)
    with scratch(parent) as private:
        base, stages = private / "model", private / "stages"
        # what is signed here is signed again where it is kept
        os.environ.setdefault(stage_key.VARIABLE, secrets.token_hex(32))
        make_folder(base, private=True)
        make_folder(stages, private=True)
        for name, content in ray.get(model[0]).items():
            write_atomically(base / name, content, private=True)
        there = replace(task, base=replace(task.base, path=base), stages=stages)
        there = replace(there, checkpoint_every=inf)  # it would be lost with this worker
        if there.key != task.key:
            raise UsageError(
                "a Ray worker has another version of audit, torch or transformers; install the same"
            )
        yield there


def _silent(label: str, share: float) -> None:
    return None
