"""A part of a corpus whose form is not known yet: the lines of one file, or of one hub split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

SPLIT_OF = {
    "train": "private",
    "dev": "heldout",
    "valid": "heldout",
    "validation": "heldout",
    "test": "heldout",
    "public": "public",
}
# as train_data.json (AirDialogue) and src-train.en.txt (parallel corpora) are named
_FILE = re.compile(r"(?:src-)?([a-z]+?)(?:_data)?(?:\.en)?")


def split_of(stem: str) -> str:
    """The split that a file of this stem is of its folder; "" where the name does not say."""
    found = _FILE.fullmatch(stem)
    return "" if found is None else SPLIT_OF.get(found[1], "")


@dataclass(frozen=True)
class Part:
    """Lines of text.

    name: what users without a name of their own are called after. place: where the lines stand,
        for messages. split: "" where the part does not say.
    owner: the one user of all its records; None: every record is of another.
    """

    name: str
    place: str
    lines: list[str]
    split: str = ""
    owner: str | None = None

    def where(self, number: int) -> str:
        """The place of a line, counted from 1."""
        return f"{self.place}:{number}"

    def blocks(self) -> Iterator[tuple[int, str]]:
        """(number of the first line, text) of each block between blank lines."""
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
        """The first block, which shows the form; "" where all is blank."""
        return next((text for _, text in self.blocks()), "")
