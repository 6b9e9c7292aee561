"""A part of a corpus whose form is unknown as yet: the lines of one file, or of one hub split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

JSON = (".jsonl", ".json", ".ndjson")
SPLIT_OF = {
    "train": "private",
    "dev": "heldout",
    "valid": "heldout",
    "validation": "heldout",
    "test": "heldout",
    "public": "public",
}
# such as train_data.json (AirDialogue) and src-train.en.txt (parallel corpora)
_FILE = re.compile(r"(?:src-)?([a-z]+?)(?:_data)?(?:\.en)?")


def split_of(stem: str) -> str:
    """The split that a file's stem names; "" where it names none."""
    match = _FILE.fullmatch(stem)
    return "" if match is None else SPLIT_OF.get(match[1], "")


@dataclass(frozen=True)
class Part:
    """Lines of text.

    name: begins the ids of users who have none. place: of the lines, for messages.
    split: "" where the part has none. owner: the user of all records; None: one user per record.
    file: the file's name; "" for the hub.
    titles: of the articles read so far, which all parts of a corpus share (WikiText).
    """

    name: str
    place: str
    lines: list[str]
    split: str = ""
    owner: str | None = None
    file: str = ""
    titles: set[str] = field(default_factory=set)

    def where(self, number: int) -> str:
        """The place of a line, counted from 1."""
        return f"{self.place}:{number}"

    def blocks(self) -> Iterator[tuple[int, str]]:
        """Yields (number of the first line, text) of each block between blank lines."""
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
