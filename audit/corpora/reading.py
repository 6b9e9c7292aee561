"""Choices that a corpus on disk leaves open: which columns to read, and what a record is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from audit.core.errors import UsageError, did_you_mean


class RecordForm(StrEnum):
    """Part of a plain text file that is one record."""

    LINES = "lines"
    PARAGRAPHS = "paragraphs"
    FILE = "file"


class UserForm(StrEnum):
    """Comparison of user ids: exactly, or after NFC, trimming and case folding."""

    EXACT = "exact"
    FOLDED = "folded"


@dataclass(frozen=True)
class Reading:
    """The settings with which a corpus is read.

    text, user, messages, split: names of columns; None: recognised by their usual names.
    records: what is a record of plain text; None: a paragraph, where blank lines make that plain.
    user_form: which spellings of an id are one user.
    """

    text: str | None = None
    user: str | None = None
    messages: str | None = None
    split: str | None = None
    records: RecordForm | None = None
    user_form: UserForm = UserForm.EXACT

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Reading:
        """Take what settings say of reading. Raises UsageError for a word that is not known."""
        given = {name: settings[name] for name in COLUMNS if name in settings}
        for name, words in (("records", RecordForm), ("user_form", UserForm)):
            if settings.get(name) is not None:
                given[name] = _word(settings[name], words, f"--{name.replace('_', '-')}")
        return cls(**given)


def _word(text: str, words: type[StrEnum], option: str) -> StrEnum:
    known = [str(word) for word in words]
    if text not in known:
        hint = did_you_mean(text, known)
        raise UsageError(f"{option} is {text!r}; it can be {', '.join(known)}{hint}")
    return words(text)


COLUMNS = ("text", "user", "messages", "split")
NAMES = tuple(field.name for field in fields(Reading))
USUAL = Reading()
