"""Where tasks are trained: one place a file. The place does not change a result."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from audit.errors import UsageError

if TYPE_CHECKING:
    from audit.training import Task

Report = Callable[[str, float], None]  # label, share done from 0 to 1
Train = Callable[["Task", Report], None]  # trains one task and keeps its weights at task.path

RAY = "ray"
_CLUSTER = re.compile(r"ray://(\[[0-9a-fA-F:]+\]|[^\s/:\[\]]+):\d{1,5}")


class Workers(ABC):
    """A place where tasks are trained, open for as long as its context."""

    @abstractmethod
    def train(self, train: Train, tasks: Sequence[Task], report: Report) -> None:
        """Trains tasks of which none needs another, begun in their order.

        Each is kept as soon as it is finished, so that a killed run loses only those in flight.
        """


def parsed(word: int | str) -> int | str:
    """What --workers says: a number of processes (0: one a core), "ray" or "ray://HOST:PORT".

    Raises UsageError, also where Ray is asked for and not installed.
    """
    text = str(word)
    if text.isascii() and text.isdecimal():
        return int(text)
    if text != RAY and not _CLUSTER.fullmatch(text):
        raise UsageError(
            f"--workers is {text}; it must be a number of processes, ray or ray://HOST:PORT"
        )
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise UsageError(f"--workers {text} needs the extra: pip install 'llm-audit[ray]'")
    return text


def opened(workers: int | str) -> contextlib.AbstractContextManager[Workers]:
    """The place that `parsed` names. Raises UsageError where a cluster cannot be reached."""
    import os

    if isinstance(workers, str):
        from audit.workers.ray import cluster, here

        return here() if workers == RAY else cluster(workers)
    count = workers or os.cpu_count() or 1
    if count == 1:
        from audit.workers.serial import Serial

        return contextlib.nullcontext(Serial())
    from audit.workers.pool import pool

    return pool(count)
