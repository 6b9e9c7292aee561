"""Start processes that import nothing from the working directory, which may be a stranger's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

SAFE = "PYTHONSAFEPATH"  # any text: Python leaves the working directory out of a new process's path


@contextlib.contextmanager
def children_leave_it_out() -> Iterator[None]:
    """Leave the working directory out of the path of processes started until the block ends."""
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE]
        else:
            os.environ[SAFE] = before


def safe_environment() -> dict[str, str]:
    """Copy this process's environment for one that imports nothing from the working directory."""
    return {**os.environ, SAFE: "1"}
