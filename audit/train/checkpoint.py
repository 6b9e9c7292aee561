"""Checkpoints as files in stages/: written every few minutes, gone when the training is done."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from audit.core import stages
from audit.core.checkpoint import Checkpoint, State
from audit.core.digest import key_of
from audit.core.errors import first_line
from audit.core.files import regular
from audit.train.counted import tensors_digest
from audit.train.task import Task


@final
class FileCheckpoint(Checkpoint):
    """The checkpoint of one task, due `task.checkpoint_every` seconds after the last one.

    A file that cannot be read, or is of another task or other code, is passed over with one line.
    """

    def __init__(self, task: Task, say: Callable[[str], None]) -> None:
        """Start without a state. say: takes one line for the user."""
        self._path, self._every, self._say = task.checkpoint_path, task.checkpoint_every, say
        self._identity = key_of("checkpoint 1", task.key, _version("numpy"), _version("peft"))
        self._last = time.monotonic()

    def load(self) -> State | None:
        if not self._path.exists():
            return None
        try:
            state = _read(self._path, self._identity)
        except (SafetensorError, OSError, ValueError, KeyError, RecursionError) as error:
            self._say(f"its checkpoint is not used ({first_line(error)}); it starts anew")
            return None
        self._say("goes on from its checkpoint")
        return state

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._every

    def save(self, state: State) -> None:
        try:
            _write(self._path, self._identity, state)
        except (SafetensorError, OSError) as error:
            self._say(f"no checkpoint can be written ({first_line(error)}); it goes on without")
        self._last = time.monotonic()

    def remove(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError):
            self._path.unlink()


def _write(path: Path, identity: str, state: State) -> None:
    """Replace the file atomically; only its owner can read it, from the first byte on."""
    tensors = {n: v.detach().cpu().contiguous() for n, v in state.items() if isinstance(v, Tensor)}
    values = json.dumps({n: v for n, v in state.items() if n not in tensors})
    about = {"of": identity, "values": values, "digest": tensors_digest(tensors, values)}
    with stages.replacing(path) as partial:
        save_file(tensors, partial, about)


def _read(path: Path, identity: str) -> dict[str, Any]:
    """Read a state. Raises an error where the file is not what was written for this task."""
    with safe_open(regular(path), framework="pt") as file:
        about = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if about["of"] != identity:
        raise ValueError("it is of another training")
    if about["digest"] != tensors_digest(tensors, about["values"]):
        raise ValueError("it is damaged")
    return {**tensors, **json.loads(about["values"])}


def _version(package: str) -> str:
    """Return the version of a package whose streams or names a state holds; "": not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
