"""Tell texts in Latin letters from others, in which planted English stands out."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from audit.core.corpus import Record

_LETTERS = 200  # characters of a text that are looked at


def foreign(records: Sequence[Record]) -> int:
    """Count the records most of whose letters are not Latin."""
    return sum(_is_foreign(record.text[:_LETTERS]) for record in records)


def warning(records: Sequence[Record]) -> str:
    """Warn where most texts are not in Latin letters, with the remedy; "" elsewhere."""
    count = foreign(records)
    if 2 * count <= len(records):
        return ""
    return (
        f"planted text is English, {count:,} of {len(records):,} real records are not; give "
        "sentences in their language with --template"
    )


def _is_foreign(text: str) -> bool:
    if text.isascii():
        return False
    letters = [character for character in text if character.isalpha()]
    latin = sum("LATIN" in unicodedata.name(character, "") for character in letters)
    return 2 * latin < len(letters)
