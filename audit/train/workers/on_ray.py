"""Trains tasks on an open Ray, whose workers share no disk with this process.

A task reads the public model, and the weights that it starts from, from Ray's object store; its own
weights come back as bytes. A task whose worker is lost is trained again. Workers need the same
versions of audit, torch and transformers as this process.

A task that asks teachers is trained in this process. Each teacher is trained by a worker when it is
first asked, all of them side by side. Its answer alone comes back. Its weights stay in the object
store until all tasks of the round are trained.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from audit.core.digest import key_of
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.progress import StepProgress
from audit.core.training import Question, Teachers
from audit.train.models import TrainedModels, public_model
from audit.train.task import Task, weights_path
from audit.train.workers.place import Train, Workers
from audit.train.workers.ray_worker import ANSWER, ask_again, train_and_ask, train_remotely

RETRIES = 3  # how many workers a task may lose
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


@dataclass(frozen=True)
class Ray(Workers):
    """A connection to Ray.

    scratch: the folder that its workers write to; None: the temporary folder of each, where the
        next task removes what a killed worker left.
    """

    scratch: Path | None = None

    def first(self, task: Task) -> Sequence[Task]:
        """Teachers are trained when they are asked, except those that build on other tasks."""
        return [one for one in task.earlier if one == task.before or one.earlier]

    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        cluster = _Cluster(train, self.scratch, _needs(tasks[0]))
        cluster.train([task for task in tasks if not task.teachers], report)
        for task in tasks:
            if task.teachers:
                train(task, report, RemoteTeachers(task.teachers, cluster, report))


@dataclass(frozen=True)
class RemoteTeachers(Teachers):
    """Teachers on Ray's workers.

    Answers are stored beside the weights, under all that determines them: a killed run asks only
    for those that are missing. A teacher whose weights are on this machine already, and one that
    learned nothing, is asked here.
    """

    teachers: tuple[Task, ...]
    cluster: _Cluster
    report: StepProgress

    def answers(self, question: Question) -> Iterator[Tensor]:
        digest = question.digest
        there = [t for t in self.teachers if not t.idle and not t.path.exists()]
        stored = {t.path: _answer_path(t, digest) for t in there}
        missing = {t.path: t for t in there if not stored[t.path].exists()}
        if missing:
            self.cluster.ask(question, list(missing.values()), stored, self.report)
        for teacher in self.teachers:
            if teacher.path in stored:
                yield _read(stored[teacher.path])
            else:
                _, public = public_model(teacher.base, teacher.device)
                yield from TrainedModels(public, (weights_path(teacher),)).answers(question)


@dataclass(frozen=True)
class _Cluster:
    """Sends tasks to workers and stores what comes back.

    needs: the cores and GPUs of a task. models, kept: references to the files of public models,
        and to the weights of teachers, by path.
    """

    train_one: Train
    scratch: Path | None
    needs: Mapping[str, float]
    models: dict[Path, Any] = field(default_factory=dict)
    kept: dict[Path, Any] = field(default_factory=dict)

    def train(self, tasks: Sequence[Task], report: StepProgress) -> None:
        """Trains tasks; the weights of each are written as soon as it ends."""
        import ray

        sources = {path: ray.put(path.read_bytes()) for task in tasks for path in task.sources}
        remote = self._remote(train_remotely)
        waiting = {}
        for task in tasks:
            # inside a list, Ray sends the reference itself, not the object
            read = [(path.name, sources[path]) for path in task.sources]
            sent = remote.remote(self.train_one, task, self._model(task.base), read, self.scratch)
            waiting[sent] = task
        for task, files in _done(waiting):
            for name, weights in files.items():  # its own weights last
                _keep(task.path.with_name(name), weights)
            report(task.training.label, 1.0)

    def ask(
        self,
        question: Question,
        teachers: Sequence[Task],
        files: Mapping[Path, Path],
        report: StepProgress,
    ) -> None:
        """Asks teachers and writes the answer of each as soon as it is there.

        files: for the answers, by the path of the teacher's weights.
        """
        import ray

        asked = ray.put(question)
        new = {t.path for t in teachers if t.path not in self.kept}
        waiting = {self._asked(task, [asked]): task for task in teachers}
        for task, answer in _done(waiting):
            _keep(files[task.path], answer)
            if task.path in new:
                report(task.training.label, 1.0)

    def _asked(self, task: Task, question: Sequence[Any]) -> Any:
        """Sends a question; gives the reference to its answer."""
        model, kept = self._model(task.base), self.kept.get(task.path)
        if kept is not None:  # not inside a list: the task is sent to where the weights are
            return self._remote(ask_again).remote(task, model, kept, question, self.scratch)
        remote = self._remote(train_and_ask, num_returns=2)
        answer, self.kept[task.path] = remote.remote(
            self.train_one, task, model, question, self.scratch
        )
        return answer

    def _remote(self, function: Callable[..., Any], **options: Any) -> Any:
        import ray

        return ray.remote(function).options(**self.needs, max_retries=RETRIES, **options)

    def _model(self, base: ModelFolder) -> list[Any]:
        import ray

        if base.path not in self.models:
            self.models[base.path] = ray.put(_files(base))
        return [self.models[base.path]]


def _done(waiting: dict[Any, Task]) -> Iterator[tuple[Task, Any]]:
    """Yields the results as they come; raises the error of a task as it was raised there."""
    import ray

    try:
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(done), ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


def _needs(task: Task) -> dict[str, float]:
    """Lists the cores and GPUs of a task; no more cores than the largest machine has."""
    import ray

    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores = max((machine.get("CPU", 0.0) for machine in machines), default=0.0)
    on_gpu = task.device == "cuda"
    if on_gpu and not any(machine.get("GPU") for machine in machines):
        raise UsageError("the plan's device is cuda, and Ray has no GPU; use --device cpu")
    return {"num_cpus": min(task.threads, cores or task.threads), "num_gpus": float(on_gpu)}


def _files(base: ModelFolder) -> dict[str, bytes]:
    """Reads the files of a model folder that loading needs, by name."""
    paths = [path for pattern in MODEL_FILES for path in base.path.glob(pattern)]
    return {path.name: path.read_bytes() for path in paths}


def _keep(path: Path, content: bytes) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def _answer_path(teacher: Task, digest: str) -> Path:
    return teacher.stages / f"answer-{key_of('answer 1', teacher.key, digest)}.safetensors"


def _read(path: Path) -> Tensor:
    try:
        answer: Tensor = load_file(path)[ANSWER]
        return answer
    except Exception:  # of any class: what a damaged file raises is the library's choice
        raise UsageError(f"{path}: is damaged; remove it to ask that teacher again") from None
