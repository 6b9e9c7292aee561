"""A pen for matplotlib without pyplot: a canvas in points, and the ticks of an axis."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from reports import _svg
from reports._svg import INK

Bounds = tuple[float, float]
WIDTH = 300.0
MARGIN = 10.0
DASHES: list[Any] = [
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (9, 3)),
    (0, (3, 4)),
]
CHANCE: dict[str, Any] = {"color": INK["ink"], "lw": 1.1, "ls": (0, (2, 1.6))}
PROMISE: dict[str, Any] = {"color": INK["ink"], "lw": 1.0, "ls": (0, (1, 2))}


@dataclass(frozen=True)
class Scale:
    """An axis: its ends and its ticks."""

    low: float
    high: float
    ticks: list[float]
    logarithmic: bool
    percent: bool


class Pen:
    """A canvas in points, y downwards; every text is kept aside under a key."""

    def __init__(self, height: float) -> None:
        self.texts: list[str] = []
        self.height = height
        self.figure: Figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
        FigureCanvasSVG(self.figure)
        self.figure.patch.set_visible(False)

    def axes(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Axes without frame, ticks or background, in points from the top left."""
        w, h = WIDTH, self.height
        axes = self.figure.add_axes((left / w, 1 - bottom / h, (right - left) / w,
                                     (bottom - top) / h))  # fmt: skip
        axes.set_axis_off()
        return axes

    def page(self) -> Axes:
        """Axes over the whole canvas, in points."""
        axes = self.axes(0, 0, WIDTH, self.height)
        axes.set(xlim=(0, WIDTH), ylim=(self.height, 0))
        return axes

    def text(self, axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
        """Writes a text; matplotlib sees only its key."""
        self.texts.append(text)
        look = {"fontsize": 10, "color": INK["ink"], **look}
        axes.text(x, y, f"@{len(self.texts) - 1}", parse_math=False, **look)

    def quiet(self, axes: Axes, x: float, y: float, text: str, **look: Any) -> None:
        """Writes a small text that stands back."""
        self.text(axes, x, y, text, **{"fontsize": 9, "color": INK["muted"], **look})

    def svg(self, name: str) -> str:
        """The finished drawing; `name` begins its identifiers, so that drawings do not clash."""
        sink = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
            self.figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None})
        return _svg.tidy(sink.getvalue(), self.texts, name)


def linear(low: float, high: float, percent: bool = False) -> Scale:
    """Ticks at round numbers, the first at or below low and the last at or above high."""
    least = 1e-9 * max(1.0, abs(low), abs(high))  # what floats tell apart
    raw = max(high - low, least) / 4
    high = low + 4 * raw
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(f * unit for f in (1, 2, 2.5, 5, 10) if f * unit >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [i * step for i in range(first, last + 1)]
    return Scale(ticks[0], ticks[-1], ticks, False, percent)


def powers_of_ten(low: float, high: float) -> Scale:
    """Ticks at powers of ten around low and high, both above 0."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last - first) / 5))
    ticks = [10.0**i for i in range(first, last + 1, step)]
    return Scale(10.0**first, 10.0**last, ticks, True, False)
