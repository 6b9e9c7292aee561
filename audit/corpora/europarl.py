"""Read Europarl (Koehn, MT Summit 2005): speeches in the European Parliament, a record per line.

The raw release marks its speakers (`<SPEAKER ID=1 NAME="…">`), who are the users; chapter titles
are left out. The plain release (europarl-v6.en) names no speakers: a "user" is a block of LINES
consecutive lines, which keeps neighbouring sentences together but is not a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from audit.core.corpus import Record
from audit.corpora.part import Part

LINES = 20  # of a block, blank ones included, so that blocks do not depend on the text
_TAG = re.compile(r"\s*<(CHAPTER|SPEAKER|P|BRK)\b([^>]*)>\s*", re.IGNORECASE)
_NAME = re.compile(r"""\bNAME=(?:"([^"]*)"|([^\s">]+))""", re.IGNORECASE)


def recognises(part: Part) -> bool:
    """Return whether the name is of a parallel corpus's English side, or speakers are marked."""
    return part.file.endswith((".en", ".en.txt")) or _is_marked(part)


def is_row(row: object) -> bool:
    """Return whether a row of the hub is a pair of sentences."""
    return isinstance(row, Mapping) and isinstance(row.get("translation"), Mapping)


def english(row: Mapping[str, Mapping[str, str]]) -> str:
    """Return the English side of a pair of sentences, on one line; "" if there is none."""
    return " ".join((row["translation"].get("en") or "").split())


def _is_marked(part: Part) -> bool:
    """Return whether the part begins with a tag of the raw release."""
    first = next((line for line in part.lines if line.strip()), "")
    return _TAG.fullmatch(first) is not None


def records(part: Part) -> Iterator[Record]:
    """Read every line of the part, by speaker if speakers are marked, else by block."""
    return _by_speaker(part) if _is_marked(part) else _by_block(part)


def _by_speaker(part: Part) -> Iterator[Record]:
    user: str | None = None  # the speaker
    for number, line in enumerate(part.lines, start=1):
        tag = _TAG.fullmatch(line)
        if tag is None:
            if user is not None and line.strip():
                yield Record(user, line.strip(), split=part.split, where=part.where(number))
        elif tag[1].upper() == "CHAPTER":
            user = None
        elif tag[1].upper() == "SPEAKER":
            user = _name_in(tag[2]) or f"{part.name}-{number}"


def _name_in(attributes: str) -> str | None:
    name = _NAME.search(attributes)
    return None if name is None else (name[1] or name[2] or "").strip() or None


def _by_block(part: Part) -> Iterator[Record]:
    for index, line in enumerate(part.lines):
        if line.strip():
            user = f"{part.name}-{index - index % LINES + 1}"
            where = part.where(index + 1)
            yield Record(user, line.strip(), split=part.split, where=where)
