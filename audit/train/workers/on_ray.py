"""Trains tasks on an open Ray, whose workers share no disk with this process.

A task reads the public model, and the weights that it starts from, from Ray's object store; its own
weights come back as bytes. A task whose worker is lost is trained again. Workers need the same
versions of audit, torch and transformers as this process.

A task that asks teachers is trained in this process. Each teacher is trained by a worker when it is
first asked, all of them side by side. Its answer alone comes back. Its weights stay in the object
store until all tasks of the round are trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from audit.core import stages
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.progress import StepProgress
from audit.core.training import Question
from audit.models.hostile_folder import OPENED
from audit.train.task import Task
from audit.train.workers.place import Train, Workers
from audit.train.workers.ray_worker import ask_again, train_and_ask, train_remotely
from audit.train.workers.remote_teachers import RemoteTeachers

RETRIES = 3  # how many workers a task may lose
MODEL_FILES = ("*.safetensors", *OPENED)


@dataclass(frozen=True)
class Ray(Workers):
    """A connection to Ray.

    scratch: the folder that its workers write to; None: the temporary folder of each, where the
        next task removes what a killed worker left.
    """

    scratch: Path | None = None

    def first(self, task: Task) -> Sequence[Task]:
        """Leave out teachers, which are trained when asked, unless they build on other tasks."""
        return [one for one in task.earlier if one == task.before or one.earlier]

    def train(self, train: Train, tasks: Sequence[Task], report: StepProgress) -> None:
        cluster = _Cluster(train, self.scratch, _needs(tasks[0]))
        cluster.train([task for task in tasks if not task.teachers], report)
        for task in tasks:
            if task.teachers:
                ask = partial(cluster.ask, report=report)
                train(task, report, RemoteTeachers(task.teachers, ask))


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
        """Train tasks; the weights of each are written as soon as it ends."""
        import ray

        every = {path for task in tasks for path in task.sources}
        sources = {path: ray.put(path.read_bytes()) for path in every}
        remote = self._remote(train_remotely)
        waiting = {}
        for task in tasks:
            # inside a list, Ray sends the reference itself, not the object
            read = [(path.name, sources[path]) for path in task.sources]
            sent = remote.remote(self.train_one, task, self._model(task.base), read, self.scratch)
            waiting[sent] = task
        for task, files in _done(waiting):
            for name, weights in files.items():  # its own weights last
                stages.write(task.path.with_name(name), weights)
            report(task.training.label, 1.0)

    def ask(self, question: Question, wanted: Mapping[Path, Task], report: StepProgress) -> None:
        """Ask teachers; write the answer of each to its file as soon as it is there."""
        import ray

        files = {task.path: path for path, task in wanted.items()}
        new = files.keys() - self.kept.keys()
        for task, (answer, learnt) in _done(self._asked([ray.put(question)], wanted.values())):
            if learnt is not None:
                stages.write(task.counted_path, learnt)
            stages.write(files[task.path], answer)
            if task.path in new:
                report(task.training.label, 1.0)

    def _asked(self, question: Sequence[Any], teachers: Iterable[Task]) -> dict[Any, Task]:
        """Send a question to teachers; return the references to their answers."""
        first, again = self._remote(train_and_ask, num_returns=2), self._remote(ask_again)
        waiting = {}
        for task in teachers:
            model, kept = self._model(task.base), self.kept.get(task.path)
            if kept is None:
                answer, self.kept[task.path] = first.remote(
                    self.train_one, task, model, question, self.scratch
                )
            else:  # not inside a list: the task is sent to where the weights are
                answer = again.remote(task, model, kept, question, self.scratch)
            waiting[answer] = task
        return waiting

    def _remote(self, function: Callable[..., Any], **options: Any) -> Any:
        import ray

        return ray.remote(function).options(**self.needs, max_retries=RETRIES, **options)

    def _model(self, base: ModelFolder) -> list[Any]:
        import ray

        if base.path not in self.models:
            self.models[base.path] = ray.put(_files(base))
        return [self.models[base.path]]


def _done(waiting: dict[Any, Task]) -> Iterator[tuple[Task, Any]]:
    """Yield the results as they come; raise the error of a task as it was raised there."""
    import ray

    try:
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(done), ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


def _needs(task: Task) -> dict[str, float]:
    """List the cores and GPUs of a task; no more cores than the largest machine has."""
    import ray

    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores = max((machine.get("CPU", 0.0) for machine in machines), default=0.0)
    on_gpu = task.device == "cuda"
    if on_gpu and not any(machine.get("GPU") for machine in machines):
        raise UsageError("the plan's device is cuda, and Ray has no GPU; use --device cpu")
    return {"num_cpus": min(task.threads, cores or task.threads), "num_gpus": float(on_gpu)}


def _files(base: ModelFolder) -> dict[str, bytes]:
    """Read the files of a model folder that loading needs, by name."""
    paths = [path for pattern in MODEL_FILES for path in base.path.glob(pattern)]
    return {path.name: path.read_bytes() for path in paths}
