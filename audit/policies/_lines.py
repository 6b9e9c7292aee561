"""The lines of a policy's file."""

from __future__ import annotations

from pathlib import Path

from audit.core.errors import UsageError


def numbered(path: str, policy: str) -> list[tuple[int, str]]:
    """(number, line) of each line that is not blank; numbers start at 1. Raises UsageError."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"policy {policy}: {path} is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"policy {policy}: {path} cannot be read ({reason})") from None
    # Only newlines end a line: other separators may stand inside a pattern or a literal.
    return [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
