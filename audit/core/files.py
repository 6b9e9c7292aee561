"""Read files that others made, and write files that stay intact if the process is killed.

Reading: of regular files only, since a pipe or a device may never end. Writing: atomic replacement,
flushed appends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from audit.core.errors import DamagedError

LARGEST = 1 << 29  # bytes of a document; a corpus may be larger


def regular(path: Path, most: int | None = None) -> Path:
    """Return the path of a regular file of at most `most` bytes; None: of any size.

    Raises OSError, with a reason in `strerror`, for anything else.
    """
    try:
        found = path.stat()
    except ValueError:  # a null character
        raise OSError(errno.EINVAL, "its name is none of a file", str(path)) from None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    if most is not None and found.st_size > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MB", str(path))
    return path


def read_text(path: Path, most: int | None = LARGEST) -> str:
    """Read the text of a regular file, without its byte order mark.

    Raises OSError or UnicodeDecodeError.
    """
    return regular(path, most).read_text(encoding="utf-8-sig")


def read_json(path: Path) -> Any:
    """Read the JSON value of a regular file. Raises OSError, or ValueError if it is none."""
    try:
        return json.loads(read_text(path))
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSONL file; drop a torn last line. Raises DamagedError or OSError."""
    if not path.exists():
        return []
    lines = regular(path).read_bytes().split(b"\n")
    return [_object(line, f"{path}:{n}") for n, line in enumerate(lines[:-1], 1) if line]


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DamagedError(f"{where}: is damaged; put the file back, or run with another --output")
    return value


def append_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Cut off a torn last line, append rows, and wait until they are on disk."""
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


def write_atomically(path: Path, content: str | bytes, private: bool = False) -> None:
    """Replace a file atomically: readers see the old content or the new, never a part.

    private: readable by its owner only, from the first byte on.
    """
    if isinstance(content, str):  # a lone surrogate, hostile or not, becomes a valid JSON escape
        content = content.encode("utf-8", errors="backslashreplace")
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    with _private(partial, "wb") if private else partial.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


def _private(path: Path, mode: str) -> IO[bytes]:
    """Open a file, created with mode 0600."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))
