"""A row a release: its name and a note above its marks and their intervals, on a shared axis."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from audit.results import words
from audit.results.words import Bounds
from reports._content import wording
from reports._figures import canvas, svg
from reports._figures.canvas import CHANCE, GUIDE, Scale

_HEIGHT = 46.0  # points of a row
_AUC = "AUC"


@dataclass(frozen=True)
class Kind:
    """Kind of a mark: what it stands for, and its look. place: in the height of its row, 0 to 1."""

    label: str
    marker: str
    place: float
    fill: Literal["full", "left", "none"] = "full"
    quiet: bool = False
    size: float = 6.5
    colour: str = svg.ACCENT

    @property
    def edge(self) -> str:
        return svg.MUTED if self.quiet else self.colour


@dataclass(frozen=True)
class Mark:
    """A value with its interval."""

    kind: Kind
    value: float
    bounds: Bounds | None = None


@dataclass(frozen=True)
class Row:
    """One release. note: its values in words. aside: stands small beside its marks."""

    label: str
    note: str
    reference: bool
    marks: list[Mark] = field(default_factory=list)
    chance: float | None = None
    aside: str = ""


def scale_of(rows: Sequence[Row], unit: str) -> Scale:
    """Return a scale that holds every value, interval and chance of the rows."""
    marks = [mark for row in rows for mark in row.marks]
    values = [row.chance for row in rows if row.chance is not None]
    values += [value for mark in marks for value in (mark.value, *(mark.bounds or ()))]
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    whole = words.is_share(unit) or unit == _AUC
    if not whole and unit != "bits" and low > 0 and high / low > 40:
        return canvas.decades(low, high, unit)  # bits are logarithms already
    if whole and low >= 0 and 0.5 < high <= 1:
        return Scale(0.0, 1.0, [0, 0.25, 0.5, 0.75, 1], unit)
    low = min(0.0, low)
    return canvas.linear(low, high if high > low else low + 1, unit)


def draw(
    rows: Sequence[Row], scale: Scale, label: str, name: str, guides: Sequence[float] = ()
) -> str:
    """Return the SVG; label: what stands under the axis. guides: values with a line through all
    rows."""
    paint = functools.partial(_paint, rows=rows, scale=scale, label=label, guides=guides)
    return canvas.drawing(name, 54 + _HEIGHT * len(rows), paint)


def _paint(
    page: Canvas, rows: Sequence[Row], scale: Scale, label: str, guides: Sequence[float]
) -> None:
    axes = page.subplots()
    canvas.across(axes, scale, label)
    axes.set(ylim=(len(rows), 0), yticks=[])
    axes.grid(visible=False)
    entries: dict[str, Artist] = {}
    for top, row in enumerate(rows):
        axes.vlines(scale.ticks, top + 0.38, top + 1, color=svg.RULE, lw=0.8)
        axes.vlines(guides, top + 0.38, top + 1, **GUIDE)
        _name(axes, row, top)
        if row.chance is not None:
            (entries["chance"],) = axes.plot([row.chance] * 2, [top + 0.4, top + 0.98], **CHANCE)
        for mark in row.marks:
            entries.setdefault(mark.kind.label, _mark(axes, mark, scale, top))
    order = [mark.kind.label for row in rows for mark in row.marks]
    shown = sorted(entries, key=[*order, "chance"].index)
    canvas.legend(page, [(entries[text], text) for text in shown], columns=5)


def _name(axes: Axes, row: Row, top: int) -> None:
    """Write the name, the note and what stands beside the marks of a row."""
    place = axes.get_yaxis_transform()
    name = wording.clip(row.label, max(16, 50 - len(row.note)))
    axes.text(0, top + 0.3, name, weight="normal" if row.reference else "bold", transform=place)
    axes.text(1, top + 0.3, row.note, ha="right", transform=place)
    box = {"facecolor": svg.PAPER, "edgecolor": "none", "pad": 1.0} if row.aside else None
    axes.text(0.02, top + 0.96, row.aside, size=8.5, color=svg.MUTED, transform=place, bbox=box)


def _mark(axes: Axes, mark: Mark, scale: Scale, top: int) -> Artist:
    """Draw a value on its interval."""
    kind, y = mark.kind, top + mark.kind.place
    ends = scale.inside(*(mark.bounds or ()))
    width = 1.1 if kind.quiet else 2.2
    axes.plot(ends, [y] * len(ends), "-", marker="", color=kind.edge, lw=width)
    face = svg.PAPER if kind.fill == "none" else kind.edge
    (artist,) = axes.plot(
        scale.inside(mark.value), [y], kind.marker, color=kind.edge, mfc=face, ms=kind.size,
        fillstyle="left" if kind.fill == "left" else "full", markerfacecoloralt=svg.PAPER,
    )  # fmt: skip
    return artist
