"""Choices that a corpus on disk leaves open: which columns to read, and what a record is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    """How a corpus is read.

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


USUAL = Reading()
