"""A table, and how a long list is cut into parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

Pair = tuple[str, str]


@dataclass(frozen=True)
class Table:
    """A captioned table; the first cell of each row names the row."""

    caption: str
    head: list[str]
    rows: list[list[str]]


def pieces(count: int, most: int) -> Iterator[tuple[str, slice]]:
    """Cut `count` things into even parts of at most `most`, each with its suffix of a title."""
    parts = math.ceil(count / most)
    size = math.ceil(count / max(1, parts))
    for part in range(parts):
        suffix = f", part {part + 1} of {parts}" if parts > 1 else ""
        yield suffix, slice(part * size, min(count, (part + 1) * size))
