"""Europarl (Koehn, MT Summit 2005): what was said in the European Parliament, one record a line.

The raw release marks who speaks (`<SPEAKER ID=1 NAME="…">`): that is the user; titles of chapters,
which nobody says, are left out. The plain one (europarl-v6.en) names nobody: a "user" is a block of
LINES consecutive lines, so that neighbouring sentences stay together. It stands for no person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from audit.core.corpus import Record
from audit.corpora.part import Part

LINES = 20  # of a block, blank ones counted: where blocks begin does not depend on the text
_TAG = re.compile(r"\s*<(CHAPTER|SPEAKER|P|BRK)\b([^>]*)>\s*", re.IGNORECASE)
_NAME = re.compile(r"""\bNAME=(?:"([^"]*)"|([^\s">]+))""", re.IGNORECASE)


def is_file(path: Path) -> bool:
    """Whether the name is that of the English side of a parallel corpus: a sentence a line."""
    return path.name.endswith((".en", ".en.txt"))


def is_row(row: object) -> bool:
    """Whether a row of the hub is a pair of sentences."""
    return isinstance(row, Mapping) and isinstance(row.get("translation"), Mapping)


def english(row: Mapping[str, Mapping[str, str]]) -> str:
    """The English side of a pair of sentences, in one line; "" where there is none."""
    return " ".join((row["translation"].get("en") or "").split())


def is_marked(part: Part) -> bool:
    """Whether the part begins with a mark of the raw release."""
    first = next((line for line in part.lines if line.strip()), "")
    return _TAG.fullmatch(first) is not None


def records(part: Part) -> Iterator[Record]:
    """Every line of the part, by speaker where they are marked, else by block."""
    return _spoken(part) if is_marked(part) else _in_blocks(part)


def _spoken(part: Part) -> Iterator[Record]:
    user: str | None = None  # who speaks
    for number, line in enumerate(part.lines, start=1):
        mark = _TAG.fullmatch(line)
        if mark is None:
            if user is not None and line.strip():
                yield Record(user, line.strip(), split=part.split, where=part.where(number))
        elif mark[1].upper() == "CHAPTER":
            user = None
        elif mark[1].upper() == "SPEAKER":
            user = _named(mark[2]) or f"{part.name}-{number}"


def _named(attributes: str) -> str | None:
    name = _NAME.search(attributes)
    return None if name is None else (name[1] or name[2] or "").strip() or None


def _in_blocks(part: Part) -> Iterator[Record]:
    for index, line in enumerate(part.lines):
        if line.strip():
            user = f"{part.name}-{index - index % LINES + 1}"
            where = part.where(index + 1)
            yield Record(user, line.strip(), split=part.split, where=where)
