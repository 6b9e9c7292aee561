"""Settings of a plan's execution, such as place and formats. None of them can change a result."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError
from audit.core.machine import launched, launched_here
from audit.core.visible import visible
from audit.plugins import registry

RAY = "ray"
MOST_THREADS = 1024  # of a process, and processes of a training: the system ends one with more
LONGEST_NAME = 60  # characters
_CLUSTER = re.compile(r"ray://(\[[0-9a-fA-F:]+\]|[^\s/:\[\]]+):\d{1,5}")


@dataclass(frozen=True)
class Execution:
    """Settings of a plan's execution: where to, by whom, in which formats. Cannot change a result.

    workers: a number of processes (0: as many as cores and memory hold), "ray" or
        "ray://HOST:PORT".
    processes: how many train each model together here whose method can be divided; sums are added
        in another order then, which rounds otherwise. A launcher decides it.
    author: who is named as having run it; "" for nobody.
    sharded: whether each of the processes that train one model holds a part of a frozen base.
    """

    output: Path | None = None
    formats: tuple[str, ...] = ("json", "html", "pdf")
    workers: int | str = 0
    processes: int = 1
    reveal: bool = False
    author: str = ""
    sharded: bool = False


def execution(settings: dict[str, Any]) -> Execution:
    """Read the settings that cannot change a result. Raises UsageError."""
    formats = tuple(settings.get("format", Execution.formats))
    for name in formats:
        registry.check("reports", name)
    output = settings.get("output")
    processes = launched_here() or _several(settings.get("processes", 1))
    workers = parsed(settings.get("workers", 0))
    if processes > 1 and isinstance(workers, str):
        raise UsageError("--processes: give a number of --workers; Ray divides no training")
    sharded = bool(settings.get("sharded", False))
    if sharded and processes == 1 and launched() is None:
        raise UsageError("--sharded divides a model among processes; give --processes 2 or more")
    return Execution(
        output=None if output is None else Path(output),
        formats=formats,
        workers=workers,
        processes=processes,
        sharded=sharded,
        reveal=bool(settings.get("reveal", False)),
        author=_signed(str(settings.get("author", ""))),
    )


def check_gpus(processes: int, device: str) -> None:
    """Raise UsageError where several processes that train one model would share a GPU."""
    import torch

    if device == "cuda" and processes > max(1, torch.cuda.device_count()):
        raise UsageError(
            f"--processes is {processes}, of one GPU each, and here are "
            f"{torch.cuda.device_count()}; give fewer, or --device cpu"
        )


def _several(number: int) -> int:
    """Check --processes. Raises UsageError."""
    if not 1 <= number <= MOST_THREADS:
        raise UsageError(
            f"--processes is {number}; it must be at least 1 and at most {MOST_THREADS:,}"
        )
    return number


def _signed(author: str) -> str:
    """Check a name that reports carry on page one: one short line, or "". Raises UsageError."""
    name = author.strip()
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(
            f"--author is {visible(name):.70}; "
            f"it must be one line of at most {LONGEST_NAME} characters"
        )
    return name


def parsed(word: int | str) -> int | str:
    """Read --workers: a number of processes (0: one a core), "ray" or "ray://HOST:PORT".

    Raises UsageError, also where Ray is wanted and not installed.
    """
    text = str(word)
    if text.isascii() and text.isdecimal():
        if len(text) > 4:
            raise UsageError(f"--workers is {text:.12}; it must be at most 9,999 processes")
        return int(text)
    if text != RAY and not _CLUSTER.fullmatch(text):
        raise UsageError(
            f"--workers is {text}; it must be a number of processes, ray or ray://HOST:PORT"
        )
    if find_spec("ray") is None:
        raise UsageError(f"--workers {text} needs the extra: pip install 'llm-audit[ray]'")
    return text
