"""Read the lines of a policy's file."""

from __future__ import annotations

from pathlib import Path

from audit.core.errors import UsageError
from audit.core.files import read_text


def numbered(path: str, policy: str) -> list[tuple[int, str]]:
    """Read (number, line) of each line that is not blank, counted from 1. Raises UsageError."""
    try:
        text = read_text(Path(path))
    except UnicodeDecodeError:
        raise UsageError(f"policy {policy}: {path} is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: an impossible path
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"policy {policy}: {path} cannot be read ({reason})") from None
    # Only newlines end a line: a pattern or a literal may contain other separators.
    return [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
