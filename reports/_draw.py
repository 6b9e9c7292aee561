"""Two kinds of drawing, by matplotlib without pyplot: rows with intervals, and curves."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports import _svg, _words
from reports._svg import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Bounds = tuple[float, float]
WIDTH = 300.0
ROW = 46.0
MARGIN = 10.0
_DASHES: list[Any] = [
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (9, 3)),
    (0, (3, 4)),
]

_PROMISE: dict[str, Any] = {"color": INK["ink"], "lw": 1.0, "ls": (0, (1, 2))}


@dataclass(frozen=True)
class Line:
    """One release in a drawing of rows; a value of None is shown as not measured."""

    label: str
    note: str
    value: float | None
    bounds: Bounds | None
    reference: bool
    twin: float | None = None
    twin_bounds: Bounds | None = None
    chance: float | None = None
    aside: str = ""


@dataclass(frozen=True)
class Curve:
    """ε spent (nats) after so many queries, and the query at which it stopped."""

    label: str
    points: list[tuple[int, float]]
    stopped_at: int | None


@dataclass(frozen=True)
class Scale:
    """The horizontal axis all parts of a figure share."""

    low: float
    high: float
    ticks: list[float]
    logarithmic: bool
    percent: bool


class _Pen:
    """A canvas in points, y downwards; every text is kept aside under a key."""

    def __init__(self, height: float) -> None:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

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

    def svg(self, name: str) -> str:
        """The finished drawing."""
        import matplotlib

        sink = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
            self.figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None})
        return _svg.tidy(sink.getvalue(), self.texts, name)


def scale_of(lines: list[Line], percent: bool) -> Scale:
    """An axis that holds every value, interval and chance of these lines."""
    values = [v for line in lines for v in _numbers(line) if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(values), max(values)
    positive = [v for v in values if v > 0]
    if not percent and low > 0 and high / min(positive) > 40:
        return _logarithmic(low, high)
    if percent and low >= 0 and high > 0.5:
        return Scale(0, 1, [0, 0.25, 0.5, 0.75, 1], False, True)
    return _linear(min(0.0, low), high if high > min(0.0, low) else low + 1, percent)


def _numbers(line: Line) -> list[float]:
    single = [line.value, line.twin, line.chance]
    pairs = [*(line.bounds or ()), *(line.twin_bounds or ())]
    return [v for v in [*single, *pairs] if v is not None]


def _linear(low: float, high: float, percent: bool) -> Scale:
    raw = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(f * unit for f in (1, 2, 2.5, 5, 10) if f * unit >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [i * step for i in range(first, last + 1)]
    return Scale(ticks[0], ticks[-1], ticks, False, percent)


def _logarithmic(low: float, high: float) -> Scale:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, math.ceil((last - first) / 5))
    ticks = [10.0**i for i in range(first, last + 1, step)]
    return Scale(10.0**first, 10.0**last, ticks, True, False)


def rows(lines: list[Line], scale: Scale, unit: str, twins: bool, name: str) -> str:
    """One row a release: its label and value above an interval, its twins below. SVG text."""
    top, bottom = 26.0, 26.0 + ROW * len(lines)
    pen = _Pen(bottom + 28)
    page = pen.page()
    _legend(pen, page, lines, twins)
    plot = pen.axes(MARGIN, top, WIDTH - MARGIN, bottom)
    plot.set(xlim=(scale.low, scale.high), ylim=(ROW * len(lines), 0))
    plot.set_xscale("log" if scale.logarithmic else "linear")
    _grid(pen, plot, scale, ROW * len(lines))
    for index, line in enumerate(lines):
        _row(pen, plot, page, line, index * ROW, top)
        _marks(plot, line, index * ROW, twins or not line.reference)
    note = f"{unit}, log scale" if scale.logarithmic else unit
    pen.text(page, WIDTH / 2, bottom + 24, _words.clip(note, 52), ha="center",
             color=INK["muted"])  # fmt: skip
    return pen.svg(name)


def _grid(pen: _Pen, plot: Axes, scale: Scale, depth: float) -> None:
    bands = [(row + 17, row + 43) for row in range(0, int(depth), int(ROW))]
    for tick in scale.ticks:
        for band in bands:
            plot.plot([tick, tick], band, color=INK["rule"], lw=0.8, clip_on=False)
        text = _words.share(tick) if scale.percent else _words.number(tick)
        side = "left" if tick == scale.ticks[0] else "center"
        side = "right" if tick == scale.ticks[-1] else side
        pen.text(plot, tick, depth + 9, text, ha=side, fontsize=9, color=INK["muted"])


def _row(pen: _Pen, plot: Axes, page: Axes, line: Line, y: float, top: float) -> None:
    weight = "normal" if line.reference else "bold"
    pen.text(page, MARGIN, top + y + 13, _words.clip(line.label, 24), fontweight=weight)
    known = line.value is not None
    pen.text(page, WIDTH - MARGIN, top + y + 13, line.note, ha="right", fontsize=9.5,
             color=INK["ink" if known else "muted"])  # fmt: skip
    if line.aside:
        pen.text(page, MARGIN + 5, top + y + 41, line.aside, fontsize=8.5, color=INK["muted"])


def _marks(plot: Axes, line: Line, y: float, filled: bool) -> None:
    if line.chance is not None:
        plot.plot([line.chance] * 2, [y + 18, y + 42], color=INK["ink"], lw=1.1,
                  ls=(0, (2, 1.6)), clip_on=False)  # fmt: skip
    if line.value is not None:
        _mark(plot, line.value, line.bounds, y + 25, filled)
    if line.twin is not None:
        _twin(plot, line.twin, line.twin_bounds, y + 36)


def _mark(plot: Axes, value: float, bounds: Bounds | None, y: float, filled: bool) -> None:
    if bounds is not None:
        plot.plot(_finite(plot, bounds), [y, y], color=INK["accent"], lw=2.2, clip_on=False,
                  solid_capstyle="round")  # fmt: skip
    face = INK["accent"] if filled else INK["paper"]
    plot.plot(_finite(plot, (value,)), [y], "o", ms=7, mfc=face, mec=INK["accent"], mew=1.6,
              clip_on=False)  # fmt: skip


def _twin(plot: Axes, value: float, bounds: Bounds | None, y: float) -> None:
    if bounds is not None:
        plot.plot(_finite(plot, bounds), [y, y], color=INK["muted"], lw=1.1, clip_on=False)
    plot.plot(_finite(plot, (value,)), [y], "s", ms=5, mfc=INK["paper"], mec=INK["muted"],
              mew=1.2, clip_on=False)  # fmt: skip


def _finite(plot: Axes, values: tuple[float, ...]) -> list[float]:
    edge = plot.get_xlim()[1]
    return [min(value, edge) for value in values]


def _legend(pen: _Pen, page: Axes, lines: list[Line], twins: bool) -> None:
    first = "planted" if twins else "audited"
    keys = [("o", 7.0, INK["accent"], INK["accent"], first)]
    if any(line.twin is not None for line in lines):
        keys.append(("s", 5.0, INK["paper"], INK["muted"], "twins"))
    if not twins:
        keys.append(("o", 7.0, INK["paper"], INK["accent"], "reference"))
    x = MARGIN + 4
    for marker, size, face, edge, text in keys:
        page.plot([x], [10], marker, ms=size, mfc=face, mec=edge, mew=1.5)
        pen.text(page, x + 8, 13.2, text, fontsize=9.5, color=INK["muted"])
        x += 26 + 5.4 * len(text)
    if any(line.chance is not None for line in lines):
        page.plot([x, x], [4, 16], color=INK["ink"], lw=1.1, ls=(0, (2, 1.6)))
        pen.text(page, x + 6, 13.2, "chance", fontsize=9.5, color=INK["muted"])


def curves(lines: list[Curve], promised: float | None, promise: str, unit: str, name: str) -> str:
    """ε spent over queries, one curve a session, the promise as a line. SVG text."""
    top = 16.0 + 15 * (len(lines) + 1)
    pen = _Pen(top + 196)
    page = pen.page()
    plot = pen.axes(38, top + 10, WIDTH - MARGIN, top + 160)
    queries = max(1, *(x for line in lines for x, _ in line.points))
    most = max([promised or 0.0, *(y for line in lines for _, y in line.points)]) or 1.0
    across, up = _linear(0, queries, False), _linear(0, most * 1.12, False)
    plot.set(xlim=(0, across.high), ylim=(0, up.high))
    _frame(pen, plot, across, up)
    pen.text(page, 38, top, f"ε spent in nats, by the {_words.clip(unit, 20)} that spent most",
             fontsize=9.5, color=INK["muted"])  # fmt: skip
    pen.text(page, WIDTH / 2, top + 190, "queries", ha="center", color=INK["muted"])
    if promised is not None:
        plot.plot([0, across.high], [promised] * 2, **_PROMISE)
        page.plot([MARGIN, MARGIN + 26], [9, 9], **_PROMISE)
    pen.text(page, MARGIN + 33, 12.3, _words.clip(promise, 60), fontsize=9.5)
    for index, line in enumerate(lines):
        _curve(pen, plot, page, line, index)
    return pen.svg(name)


def _frame(pen: _Pen, plot: Axes, across: Scale, up: Scale) -> None:
    for tick in up.ticks:
        plot.plot([0, across.high], [tick, tick], color=INK["rule"], lw=0.7, clip_on=False)
        pen.text(plot, -0.015 * across.high, tick, _words.number(tick), ha="right", va="center",
                 fontsize=9, color=INK["muted"])  # fmt: skip
    for tick in across.ticks:
        side = "right" if tick == across.ticks[-1] else "center"
        pen.text(plot, tick, -0.1 * up.high, _words.number(tick), ha=side, fontsize=9,
                 color=INK["muted"])  # fmt: skip


def _curve(pen: _Pen, plot: Axes, page: Axes, line: Curve, index: int) -> None:
    dash = _DASHES[index % len(_DASHES)]
    color = INK["ink" if index % 2 else "accent"]
    look = {"color": color, "ls": dash, "lw": 1.7, "clip_on": False}
    points = _thinned(line.points)
    plot.plot(*points[-1], "o", ms=5, color=color, clip_on=False)
    plot.plot([x for x, _ in points], [y for _, y in points], **look)
    y = 9 + 15 * (index + 1)
    page.plot([MARGIN, MARGIN + 26], [y, y], **look)
    stop = "" if line.stopped_at is None else f", STOP at query {_words.count(line.stopped_at)} (×)"
    pen.text(page, MARGIN + 33, y + 3.3, _words.clip(line.label, 40) + stop, fontsize=9.5)
    if line.stopped_at is not None:
        spent = max((ε for x, ε in line.points if x <= line.stopped_at), default=0.0)
        plot.plot([line.stopped_at], [spent], "x", ms=8, mew=2, mec=INK["ink"], clip_on=False)


def _thinned(points: list[tuple[int, float]], most: int = 200) -> list[tuple[int, float]]:
    if len(points) <= most:
        return points
    step = math.ceil(len(points) / most)
    return [*points[:-1:step], points[-1]]
