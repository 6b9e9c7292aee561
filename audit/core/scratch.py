"""Scratch folders: removed at the end, or after a kill by whoever next looks for abandoned ones.

Each is locked by its process. The lock is a flock and ends with the process, also by a kill.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

SHORT = Path("/tmp")  # a socket's path must be short; $TMPDIR may be long
_NAME = re.compile(r"audit-ray-[0-9a-f]{16}")


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Make a folder that only its owner can read, and remove it when the block ends."""
    folder, lock = _made(parent)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def remove_abandoned(parent: Path = SHORT) -> int:
    """Remove the scratch folders whose process was killed; return their size in bytes."""
    ours = [path for path in parent.glob("audit-ray-*") if _NAME.fullmatch(path.name)]
    return sum(map(_remove_if_abandoned, ours))


def _made(parent: Path) -> tuple[Path, int]:
    """Make and lock a folder; another one if it was taken for abandoned before it was locked."""
    while True:
        folder = parent / f"audit-ray-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _remove_if_abandoned(folder: Path) -> int:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # gone, or no folder of this user
        return 0
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid != os.getuid():
            return 0
        size = _size(folder)
        _remove(folder)
        return size
    except BlockingIOError:  # its process lives
        return 0
    finally:
        os.close(lock)


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += path.lstat().st_size
    return size


def _remove(folder: Path) -> None:
    """Remove a folder, with retries: processes that are about to end write for a moment more."""
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.1)
