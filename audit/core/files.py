"""Writes files that stay intact if the process is killed: atomic replacement, flushed appends."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Reads the objects of a JSONL file; drops a torn last line."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1] if line]


def append_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Cuts off a torn last line, appends rows, and waits until they are on disk."""
    if not rows:
        return
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    with _private(path, "ab+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # other processes of a run may append, too
        if stream.seek(0, os.SEEK_END):
            stream.seek(-1, os.SEEK_END)
            if stream.read() != b"\n":
                stream.seek(0)
                stream.truncate(stream.read().rfind(b"\n") + 1)
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


def write_atomically(path: Path, text: str, private: bool = False) -> None:
    """Replaces a file atomically: readers see the old content or the new, never a part.

    private: readable by its owner only, from the first byte on.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    with _private(partial, "wb") if private else partial.open("wb") as stream:
        # a lone surrogate, hostile or not, becomes a valid JSON escape
        stream.write(text.encode("utf-8", errors="backslashreplace"))
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


def _private(path: Path, mode: str) -> IO[bytes]:
    """Opens a file, created with mode 0600."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))
