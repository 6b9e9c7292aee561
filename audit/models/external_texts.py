"""Read texts that a model elsewhere wrote, and that are all of it that is released."""

from __future__ import annotations

import json
from pathlib import Path

from audit.core.errors import UsageError
from audit.core.files import read_text


def is_texts(source: str) -> bool:
    """Return whether a model is named by a file of texts rather than by a folder."""
    return source.endswith(".jsonl") and not Path(source).is_dir()


def read(source: str) -> tuple[str, ...]:
    """Read the texts of a JSONL file, one object with `text` a line; empty texts count.

    Raises UsageError for a file that cannot be read, another line, or no text at all.
    """
    try:
        lines = read_text(Path(source), most=None).rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{source}: cannot be read as UTF-8 text ({error})") from None
    texts = tuple(_text(line, f"{source}, line {i}") for i, line in enumerate(lines, 1))
    if not any(text.strip() for text in texts):
        raise UsageError(f"{source}: holds no text; give one object with `text` a line")
    return texts


def _text(line: str, where: str) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    text = row.get("text") if isinstance(row, dict) else None
    # half of a surrogate pair is not a character
    if not isinstance(text, str) or any("\ud800" <= one <= "\udfff" for one in text):
        raise UsageError(f'{where}: is no object with a string `text`; write {{"text": "…"}}')
    return text
