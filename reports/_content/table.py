"""A table, how it is shown outside the reports, and how a long list is cut into parts."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]


@dataclass(frozen=True)
class Table:
    """A captioned table; the first cell of each row names the row."""

    caption: str
    head: list[str]
    rows: list[list[str]]

    @property
    def lines(self) -> list[str]:
        """Its head and rows as text, in columns."""
        rows = [self.head, *self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]

    def markup(self, style: str = "") -> str:
        """Write it as HTML, everything escaped. style: of each cell."""
        look = f' style="{style}"' if style else ""
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        body = "".join(_row(row, "td", look) for row in self.rows)
        head = _row(self.head, "th", look)
        return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(cells: Sequence[str], tag: str, look: str) -> str:
    written = (f"<{tag}{look}>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{''.join(written)}</tr>"


def pieces(count: int, most: int) -> Iterator[tuple[str, slice]]:
    """Cut `count` things into even parts of at most `most`, each with its suffix of a title."""
    parts = math.ceil(count / most)
    size = math.ceil(count / max(1, parts))
    for part in range(parts):
        suffix = f", part {part + 1} of {parts}" if parts > 1 else ""
        yield suffix, slice(part * size, min(count, (part + 1) * size))
