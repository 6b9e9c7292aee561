"""Hash everything that determines a result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def sha256_of(content: str | bytes) -> str:
    """Compute SHA-256 as 64 hexadecimal digits; text is hashed as UTF-8."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Compute SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_json(
    value: Any, sort_keys: bool = True, default: Callable[[Any], Any] | None = None
) -> str:
    """Compute SHA-256 of a value written as JSON, as 64 hexadecimal digits.

    sort_keys: whether the order of an object's keys is ignored.
    default: how a value is written that JSON has no form for; None: a TypeError.
    """
    return sha256_of(json.dumps(value, sort_keys=sort_keys, default=default))


def key_of(*parts: Any) -> str:
    """Compute a hash of 32 hexadecimal digits, to name a result by all that determines it."""
    return digest_of_json(parts, default=str)[:32]
