"""Draws with matplotlib in the report's style: a canvas, its scales and its legend.

Texts stay texts, so that the font and the colours of the page apply to them.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogLocator, MaxNLocator

from audit.results import words
from reports._figures import svg

_MOST = 150  # decades to each side of 1
WIDTH = 300.0  # points; on a telephone a drawing is shown at about this size
CHANCE: dict[str, Any] = {"color": svg.INK, "lw": 1.1, "ls": (0, (2, 1.6)), "marker": ""}
GUIDE: dict[str, Any] = {"color": svg.MUTED, "lw": 0.8, "ls": (0, (3, 2))}
PROMISE: dict[str, Any] = {"color": svg.INK, "lw": 1.0, "ls": (0, (1, 2)), "marker": ""}
_STYLE = Path(__file__).parents[1] / "_templates" / "figures.mplstyle"


@dataclass(frozen=True)
class Scale:
    """An axis: its ends, its ticks, and the unit its ticks are written in."""

    low: float
    high: float
    ticks: Sequence[float]
    unit: str = ""
    logarithmic: bool = False

    def inside(self, *values: float) -> list[float]:
        """Move what lies beyond the axis to its end."""
        return [min(max(value, self.low), self.high) for value in values]


def linear(low: float, high: float, unit: str = "") -> Scale:
    """Place ticks at round numbers, the first at or below low and the last at or above high."""
    least = 1e-9 * max(1.0, abs(low), abs(high))  # floats tell no smaller spans apart
    ticks = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, max(high, low + least))
    return Scale(float(ticks[0]), float(ticks[-1]), [float(tick) for tick in ticks], unit)


def logarithmic(low: float, high: float, unit: str = "") -> Scale:
    """Return a logarithmic axis from low to high, both above 0, with ticks at round numbers."""
    subs = (1.0, 2.0, 5.0) if high / low < 160 else (1.0,)
    ticks = map(float, LogLocator(subs=subs, numticks=7).tick_values(low, high))
    inside = [tick for tick in ticks if low * 0.999 < tick < high * 1.001]
    return Scale(low, high, inside, unit, logarithmic=True)


def decades(low: float, high: float, unit: str = "") -> Scale:
    """Return a logarithmic axis over the whole powers of ten around low and high, both above 0."""
    first = min(max(math.floor(math.log10(low)), -_MOST), _MOST - 1)
    last = min(math.ceil(math.log10(high)), _MOST)
    return logarithmic(10.0**first, 10.0 ** max(last, first + 1), unit)


def drawing(name: str, height: float, paint: Callable[[Canvas], None]) -> str:
    """Return the SVG that `paint` draws on a canvas of this height, in points.

    Identifiers are derived from `name`, which no other drawing of a page may have.
    """
    sink = io.StringIO()
    with warnings.catch_warnings(), style.context(["default", _STYLE, {"svg.hashsalt": name}]):
        warnings.filterwarnings("ignore", "Glyph")  # matplotlib measures, the page's fonts show
        canvas = Canvas(figsize=(WIDTH / 72, height / 72))
        paint(canvas)
        page = FigureCanvasSVG(canvas)  # `savefig` would lay it out once more
        page.print_svg(sink, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return svg.tidy(sink.getvalue())


def legend(canvas: Canvas, entries: Sequence[tuple[Artist, str]], columns: int = 1) -> None:
    """Draw a legend above all axes. matplotlib drops labels that open with _ unless set later."""
    artists = [artist for artist, _ in entries]
    box = canvas.legend(artists, ["x"] * len(artists), loc="outside upper left", ncols=columns)
    for text, (_, label) in zip(box.get_texts(), entries, strict=True):
        text.set_text(label)


def across(axes: Axes, scale: Scale, label: str = "") -> None:
    """Apply a scale to the horizontal axis."""
    axes.set_xscale("log" if scale.logarithmic else "linear")
    axes.set_xticks(scale.ticks, _written(scale))
    axes.set_xticks([], minor=True)
    axes.set(xlim=(scale.low, scale.high), xlabel=label)


def up(axes: Axes, scale: Scale, label: str = "") -> None:
    """Apply a scale to the vertical axis; the label stands above it, where it is read."""
    axes.set_yscale("log" if scale.logarithmic else "linear")
    axes.set_yticks(scale.ticks, _written(scale))
    axes.set_yticks([], minor=True)
    axes.set_ylim(scale.low, scale.high)
    axes.set_title(label, color=svg.MUTED)
    axes.grid(visible=False, axis="x")


def _written(scale: Scale) -> list[str]:
    return [words.quantity(tick, scale.unit) for tick in scale.ticks]
