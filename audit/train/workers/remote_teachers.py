"""Teachers that answer elsewhere; their answers are stored here, their weights are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from audit.core.digest import key_of
from audit.core.errors import UsageError
from audit.core.training import Question, Teachers
from audit.train.models import TrainedModels, public_model
from audit.train.task import Task, weights_path
from audit.train.workers.ray_worker import ANSWER


@dataclass(frozen=True)
class RemoteTeachers(Teachers):
    """Teachers that others ask for this process.

    Answers are stored beside the weights, under all that determines them: a killed run asks only
    for those that are missing. A teacher whose weights are on this machine already, and one that
    learned nothing, is asked here.

    ask: asks teachers, and writes the answer of each to the file that it is listed by.
    """

    teachers: tuple[Task, ...]
    ask: Callable[[Question, Mapping[Path, Task]], None]

    def answers(self, question: Question) -> Iterator[Tensor]:
        digest = question.digest
        elsewhere = [t for t in self.teachers if not t.idle and not t.path.exists()]
        files = {t.path: answer_path(t, digest) for t in elsewhere}
        missing = {files[t.path]: t for t in elsewhere if not files[t.path].exists()}
        if missing:
            self.ask(question, missing)
        for teacher in self.teachers:
            if teacher.path in files:
                yield _read(files[teacher.path])
            else:
                _, public = public_model(teacher.base, teacher.device)
                here = TrainedModels(public, (weights_path(teacher),), teacher.base.lora)
                yield from here.answers(question)


def answer_path(teacher: Task, digest: str) -> Path:
    """Return the file of a teacher's answer. digest: of the question."""
    return teacher.stages / f"answer-{key_of('answer 1', teacher.key, digest)}.safetensors"


def _read(path: Path) -> Tensor:
    try:
        answer: Tensor = load_file(path)[ANSWER]
        return answer
    except Exception:  # of any class: what a damaged file raises is the library's choice
        raise UsageError(f"{path}: is damaged; remove it to ask that teacher again") from None
