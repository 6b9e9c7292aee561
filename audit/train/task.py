"""Names a training task by the hash of everything that determines its model.

So a killed run resumes at the task it was in, and plans share trained models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path

from audit.core.code import code_digest
from audit.core.digest import key_of, sha256_of_file
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.training import Training

EVERY = 300.0  # seconds between checkpoints: a shorter training writes none
version = cache(metadata.version)  # takes milliseconds, and a run may have thousands of tasks
SHARDING = (2, 9)  # PyTorch before it shards no block of several precisions
SHARE = "share"  # of the training done at the best step, in the metadata of its weights


@dataclass(frozen=True)
class Task:
    """A training, the public model it starts from, and the folder for its weights.

    checkpoint_every: seconds between its checkpoints, which change no result.
    """

    training: Training
    base: ModelFolder
    device: str
    threads: int
    stages: Path
    checkpoint_every: float = EVERY

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the weights, code and versions included."""
        adapted = self.base.lora is not None or _trains_adapters(self.training)
        libraries = ("torch", "transformers", *(("peft",) if adapted else ()))
        return key_of(
            "training 6",
            (self.base.identity, self.training.digest),
            (self.device, self.threads, *map(version, libraries)),
            code_digest(*sorted({"audit.train.train", *_modules(self.training)})),
        )

    @property
    def repeatable(self) -> bool:
        """Return whether its key stands for one model: noise of the system never repeats."""
        own = vars(self.training.method).values()
        drawn = {getattr(part, "source", None) for part in (self.training.method, *own)}
        return "system" not in drawn and all(task.repeatable for task in self.earlier)

    @property
    def weights_key(self) -> str:
        """Name its weights: by the key, and by their own hash where the key stands for many."""
        path = weights_path(self)
        if self.repeatable or path is None or not path.exists():
            return self.key
        return f"{self.key} {sha256_of_file(path)}"

    @cached_property
    def before(self) -> Task | None:
        """The task that this one continues."""
        after = self.training.after
        return None if after is None else dataclasses.replace(self, training=after)

    @cached_property
    def teachers(self) -> tuple[Task, ...]:
        """The tasks whose models this one queries."""
        return tuple(dataclasses.replace(self, training=t) for t in self.training.teachers)

    @property
    def earlier(self) -> tuple[Task, ...]:
        """The tasks that must come directly before: its teachers and the one it continues."""
        return (*self.teachers, *([self.before] if self.before else []))

    @property
    def all_earlier(self) -> tuple[Task, ...]:
        """All tasks that must come before, directly or indirectly."""
        return tuple(task for one in self.earlier for task in (one, *one.all_earlier))

    @property
    def idle(self) -> bool:
        """Return whether the training leaves the model as it is."""
        return self.training.method.idle(self.training)

    @property
    def frozen_base(self) -> bool:
        """Return whether it trains adapters on a base that several processes can hold in parts."""
        return self.base.lora is not None and self.training.method.sharded

    @property
    def path(self) -> Path:
        """The file of its weights; an idle task writes none."""
        return self.stages / f"trained-{self.key}.safetensors"

    @property
    def best_path(self) -> Path:
        """The file of its best step on held-out text; written where that is not the last."""
        return self.path.with_name(f"{self.path.stem}-best{self.path.suffix}")

    @property
    def counted_path(self) -> Path:
        """The file of what its steps learnt from, written before its weights."""
        return self.stages / f"counted-{self.key}.json"

    @property
    def draws_path(self) -> Path:
        """The file that counts how often noise was drawn for it where that is never the same."""
        return self.stages / f"draws-{self.key}.txt"

    @property
    def draws(self) -> int:
        """Number of finished models that were made under its key."""
        return len(self.draws_path.read_bytes()) if self.draws_path.exists() else 0

    @property
    def checkpoint_path(self) -> Path:
        """The file that it goes on from after a kill; there only while it is not done."""
        return self.stages / f"checkpoint-{self.key}.safetensors"

    @property
    def sources(self) -> tuple[Path, ...]:
        """The weight files that it starts from or queries, except the public model's."""
        return tuple(dict.fromkeys(path for task in self.earlier if (path := weights_path(task))))


def check_sharded(tasks: Sequence[Task]) -> None:
    """Raise UsageError where no task trains a model on a base that can be held in parts."""
    if tuple(map(int, version("torch").split(".")[:2])) < SHARDING:
        newer = ".".join(map(str, SHARDING))
        raise UsageError(
            f"--sharded needs PyTorch {newer} or newer, and here is {version('torch')}"
        )
    if any(task.frozen_base for task in tasks):
        return
    if any(task.training.method.sharded for task in tasks):
        raise UsageError(
            "--sharded divides a frozen base, and here all weights are trained; give --lora"
        )
    raise UsageError(
        "--sharded divides models that several processes train; give dp_sgd, dp_ftrl or s_dpsgd"
    )


def _modules(training: Training) -> Iterator[str]:
    """Yield the modules of the methods by which a model is made."""
    yield type(training.method).__module__
    for earlier in training.earlier:
        yield from _modules(earlier)


def _trains_adapters(training: Training) -> bool:
    """Return whether PEFT chooses layers and draws factors for it, or for one before it."""
    own = bool(getattr(training.method, "lora", 0))
    return own or any(map(_trains_adapters, training.earlier))


def weights_path(task: Task) -> Path | None:
    """Find the file with the weights that a task leads to; None: the public model's."""
    if not task.idle:
        return task.path
    return None if task.before is None else weights_path(task.before)
