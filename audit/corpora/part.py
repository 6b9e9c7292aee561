"""A part of a corpus whose form is unknown as yet: the lines of one file, or of one hub split."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from audit.corpora.packed import PACKED
from audit.corpora.reading import USUAL, Reading

JSON = (".jsonl", ".json", ".ndjson")
SPLIT_OF = {
    "train": "private",
    "training": "private",
    "dev": "heldout",
    "val": "heldout",
    "valid": "heldout",
    "validation": "heldout",
    "eval": "heldout",
    "evaluation": "heldout",
    "test": "heldout",
    "public": "public",
    "heldout": "heldout",
    "private": "private",
}
# such as train_data.json (AirDialogue), src-train.en.txt (parallel corpora), train_sft.jsonl and
# train-00000-of-00002.parquet (the hub)
_FILE = re.compile(r"(?:src-)?([a-z]+?)(?:_data|_sft)?(?:\.en)?(?:-\d{5}-of-\d{5})?")


def split_of(stem: str) -> str:
    """Return the split that a file's stem names; "" where it names none."""
    match = _FILE.fullmatch(stem)
    return "" if match is None else SPLIT_OF.get(match[1], "")


def split_of_file(place: Path) -> str:
    """Return the split that a file's name, or else the nearest folder's, names."""
    return split_of(naming(place))


def naming(place: Path) -> str:
    """Return the part of a path that names its split: the file's, or the nearest folder's."""
    names = (stem(place), *reversed(place.parts[:-1]))
    return next((name for name in names if split_of(name)), "")


def stem(path: Path) -> str:
    """Return a file's name without the ending of its kind, packed or not."""
    return as_text((path.with_suffix("") if path.suffix in PACKED else path).stem)


def as_text(path: Path | str) -> str:
    """Write a path as text that a file can hold; bytes that are not UTF-8 become as \\xff."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Part:
    """Lines of text.

    name: begins the ids of users who have none. place: of the lines, for messages.
    split: "" where the part has none. owner: the user of all records; None: one user per record.
    file: the file's name; "" for the hub.
    titles: of the articles read so far, which all parts of a corpus share (WikiText).
    reading: how columns and records are to be read. notes: what was recognised, counted by record,
        which all parts of a corpus share.
    """

    name: str
    place: str
    lines: list[str]
    split: str = ""
    owner: str | None = None
    file: str = ""
    titles: set[str] = field(default_factory=set)
    reading: Reading = USUAL
    notes: dict[str, int] = field(default_factory=dict)

    def where(self, number: int) -> str:
        """Return the place of a line, counted from 1."""
        return f"{self.place}:{number}"

    def note(self, what: str) -> None:
        """Count a record of which something was recognised."""
        self.notes[what] = self.notes.get(what, 0) + 1

    def blocks(self) -> Iterator[tuple[int, str]]:
        """Yield (number of the first line, text) of each block between blank lines."""
        block: list[str] = []
        first = 1
        for number, line in enumerate([*self.lines, ""], start=1):
            if line.strip():
                if not block:
                    first = number
                block.append(line)
            elif block:
                yield first, "\n".join(block)
                block = []

    @property
    def first(self) -> str:
        """The first block, which shows the form; "" if all lines are blank."""
        return next((text for _, text in self.blocks()), "")
