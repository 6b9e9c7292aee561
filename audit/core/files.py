"""Read files that others made: regular files only, since a pipe or a device may never end."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from audit.core.errors import DamagedError
from audit.core.machine import memory

LARGEST = 1 << 27  # bytes of a document; a corpus may be larger
MOST_LINES = 1 << 31  # bytes of a ledger: ten million rows
_BRACKETS, _COMMAS = 1 << 21, 1 << 23  # of a JSON value: each takes up to 240 or 70 bytes of memory
_DEEPEST = 64  # brackets in brackets: whoever walks through them takes stack for each
_NESTED = (dict, list)
_TOO_DEEP = "its brackets are nested too deeply"


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
    return parsed(read_text(path))


def parsed(text: str) -> Any:
    """Parse a JSON value that takes less than 1 GB of memory, and little stack.

    Raises ValueError for any other.
    """
    if text.count("[") + text.count("{") > _BRACKETS or text.count(",") > _COMMAS:
        raise ValueError("it holds too many values to be read")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    depth, level = 0, [[value]]
    while level and depth <= _DEEPEST:
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for values in inside for one in values if type(one) in _NESTED]
        depth += 1
    if level:
        raise ValueError(_TOO_DEEP)
    return value


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSONL file; drop a torn last line. Raises DamagedError or OSError."""
    if not path.exists():
        return []
    most = min(MOST_LINES, int(memory()) >> 4)
    lines = regular(path, most).read_bytes().split(b"\n")
    return [_object(line, f"{path}:{n}") for n, line in enumerate(lines[:-1], 1) if line]


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = parsed(line.decode())
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise DamagedError(f"{where}: is damaged; put the file back, or run with another --output")
    return value
