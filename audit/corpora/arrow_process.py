"""Try Parquet and Arrow files in a process of its own, with limits on time and memory.

A hundred bytes may stand for gigabytes, which their library makes before anybody can count them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError
from audit.core.limited_process import LimitedProcess, serve
from audit.corpora import packed, tables

_MEMORY = 30  # it may have 2 to the power of this in bytes, and more for large files:
_TIMES = 16  # the size of the file
_SECONDS, _BYTES_A_SECOND = 60.0, 1 << 19


def check(path: Path, content: bytes) -> None:
    """Raise UsageError where a file cannot be read, or takes far more memory or time than its size.

    content: of the file, unpacked.
    """
    packed.library(packed.kind(path), str(path))
    memory = max(_MEMORY, (_TIMES * len(content)).bit_length())
    try:
        seconds = _SECONDS + len(content) / _BYTES_A_SECOND
        problem = _process(memory, os.getpid()).problem(path, seconds)
    except UsageError as error:
        raise UsageError(f"{path}: cannot be read ({error}); give it as JSON lines") from None
    if problem:
        raise UsageError(problem)


class ArrowProcess(LimitedProcess):
    """A process that tries to read files."""

    def __init__(self, memory: int) -> None:
        """Describe the process. memory: bytes that reading may take."""
        super().__init__(__name__, None, memory)

    def problem(self, path: Path, seconds: float) -> str:
        """Return why a file is none; "" where it can be read. Raises UsageError beyond a limit."""
        return str(self.ask(str(path), seconds))


@lru_cache(maxsize=2)
def _process(memory: int, starter: int) -> ArrowProcess:
    """Share the process of so much memory; a fork of this process has one of its own."""
    return ArrowProcess(1 << memory)


def _trier(setup: Any) -> Callable[[str], str]:
    pyarrow = packed.library("Arrow", __name__)
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # others take address space ahead

    def problem(name: str) -> str:
        path = Path(name)
        try:
            for _ in tables.batches(packed.content(path), packed.kind(path), name):
                pass
        except UsageError as error:
            return str(error)
        return ""

    return problem


if __name__ == "__main__":
    serve(_trier)
