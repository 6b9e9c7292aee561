"""The two shapes every part of a report is made of: a table, and a drawing with its table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A captioned table; the first cell of each row names the row."""

    caption: str
    head: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Figure:
    """A drawing (neutral SVG, see `_svg`), its alternative text and its numbers."""

    title: str
    caption: str
    alternative: str
    svg: str
    table: Table


def pieces(count: int, most: int) -> Iterator[tuple[str, slice]]:
    """`count` things in even parts of at most `most`, each with the suffix of its title."""
    parts = math.ceil(count / most)
    size = math.ceil(count / max(1, parts))
    for part in range(parts):
        suffix = f", part {part + 1} of {parts}" if parts > 1 else ""
        yield suffix, slice(part * size, min(count, (part + 1) * size))
