"""Lines over a swept quantity: points with intervals, levels of references, a forbidden region.

Lines are distinguished by marker and dash, not by hue. An interval beyond the frame is cut there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.transforms import ScaledTranslation

from audit.results import words
from audit.results.words import Bounds
from reports._content import wording
from reports._content.figure import Figure
from reports._content.table import Table
from reports._figures import canvas, svg
from reports._figures.canvas import PROMISE, Scale
from reports._figures.sweep_axes import identifier

MOST_LINES = 6
_DODGE = 5.0  # points between lines over the same places
_DASHES = [(0, (1.5, 1.5)), (0, (5, 2)), (0, (6, 2, 1, 2)), (0, (3, 4))]  # of levels


@dataclass(frozen=True)
class Point:
    """One cell of the grid; hollow where it may not be ranked against the rest."""

    x: float
    y: float
    bounds: Bounds | None = None
    across: Bounds | None = None
    hollow: bool = False


@dataclass(frozen=True)
class Series:
    """One line; one without points stands in the legend only."""

    label: str
    points: list[Point]
    joined: bool = True


@dataclass(frozen=True)
class Plot:
    """A drawing: its lines, and the labels of its axes. forbidden: y above x refutes a claim.

    levels: references that do not depend on what is swept, each under its label.
    """

    series: list[Series]
    levels: dict[str, float]
    across: str
    up: str
    forbidden: bool = False

    @property
    def hollow(self) -> bool:
        """Return whether any point may not be ranked against the rest."""
        return any(point.hollow for line in self.series for point in line.points)


def figures(plot: Plot, title: str, caption: str, sentence: str, table: Table) -> Iterator[Figure]:
    """Return the figures of a plot, each with at most MOST_LINES lines."""
    for index, part in enumerate(parts(plot)):
        height = 206.0 + 15 * (len(part.series) + len(part.levels))
        paint = functools.partial(_paint, plot=part)
        drawn = canvas.drawing(identifier(title, str(index)), height, paint)
        yield Figure(title, caption, f"{title}. {sentence}.", drawn, table)


def parts(plot: Plot) -> list[Plot]:
    """Cut a plot into parts of at most MOST_LINES lines."""
    starts = range(0, max(1, len(plot.series)), MOST_LINES)
    return [replace(plot, series=plot.series[start : start + MOST_LINES]) for start in starts]


def _paint(page: Canvas, plot: Plot) -> None:
    axes = page.subplots()
    points = [point for line in plot.series for point in line.points]
    xs, ys = [p.x for p in points] or [1.0], [p.y for p in points]
    across = scale([*xs, max(xs) * 1.03], [b for p in points for b in p.across or ()])
    ys += [*plot.levels.values(), *([across.high] if plot.forbidden else [])]
    up = scale(ys, [b for p in points for b in p.bounds or ()], plot.up)
    log = ", log scale" if across.logarithmic and len(plot.across) < 50 else ""
    canvas.across(axes, across, wording.clip(plot.across + log, 60))
    log = ", log scale" if up.logarithmic else ""
    canvas.up(axes, up, wording.clip(plot.up + log, 52))
    if plot.forbidden:
        _forbid(axes, across, up)
    entries: list[tuple[Artist, str]] = []
    for row, line in enumerate(plot.series):
        dodge = _DODGE * (row - (len(plot.series) - 1) / 2)
        dodge *= line.joined and not plot.forbidden
        entries.append((line_of(axes, line, across, up, dodge), wording.clip(line.label, 54)))
    for (label, value), dash in zip(plot.levels.items(), _DASHES, strict=False):
        artist = axes.axhline(value, color=svg.MUTED, lw=1.2, ls=dash, marker="")
        entries.append((artist, wording.clip(label, 54)))
    canvas.legend(page, entries)


def line_of(axes: Axes, line: Series, across: Scale, up: Scale, dodge: float) -> Artist:
    """Draw one line, moved aside by `dodge` points, and return what its legend shows."""
    moved = axes.transData + ScaledTranslation(dodge / 72, 0, axes.figure.dpi_scale_trans)
    xs, ys = [p.x for p in line.points], [p.y for p in line.points]
    (key,) = axes.plot(xs, ys, transform=moved)
    if not line.joined:
        key.set_linestyle("")
    same: dict[str, Any] = {"color": key.get_color(), "transform": moved}
    interval: dict[str, Any] = {**same, "lw": 1.1, "ls": "-", "marker": ""}
    for point in line.points:
        if point.bounds is not None:
            axes.plot([point.x, point.x], up.inside(*point.bounds), **interval)
        if point.across is not None:
            axes.plot(across.inside(*point.across), [point.y, point.y], **interval)
        if point.hollow:
            axes.plot(point.x, point.y, marker=key.get_marker(), ls="", mfc=svg.PAPER, **same)
    if line.points and all(point.hollow for point in line.points):
        key.set_markerfacecolor(svg.PAPER)
    return key


def _forbid(axes: Axes, across: Scale, up: Scale) -> None:
    """Shade what lies above the diagonal: it refutes a claim."""
    space = np.geomspace if across.logarithmic else np.linspace
    xs = space(across.low, across.high, 61)
    edge = np.clip(xs, up.low, up.high)
    axes.fill_between(xs, edge, up.high, color=svg.RULE, lw=0, alpha=0.55)
    axes.plot(xs, edge, **PROMISE)
    axes.text(0.02, 0.97, "above the claim: refutes it", transform=axes.transAxes, va="top",
              fontsize=9, color=svg.MUTED)  # fmt: skip


def scale(values: Sequence[float], bounds: Sequence[float], unit: str = "") -> Scale:
    """Return a scale for values, logarithmic where positive ones differ more than twelvefold.

    Shares and areas show their intervals whole, and are never logarithmic, as bits are not; other
    intervals widen the axis by no more than the values' own span.
    """
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    bounded = words.is_share(unit) or unit == "AUC"
    if low > 0 and high / low > 12 and not bounded and unit != "bits":
        return canvas.logarithmic(low / 1.3, high * 1.3)
    room = math.inf if bounded or low == high else max(high - low, 0.15 * abs(high))
    ends = [b for b in bounds if math.isfinite(b)]
    least = min([low, *(max(b, low - room) for b in ends)])
    most = max([high, *(min(b, high + room) for b in ends)])
    if low >= 0 and (bounded or least < 0.4 * most):
        least = 0.0
    return canvas.linear(least, most if most > least else least + 1, unit)
