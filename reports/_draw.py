"""Two kinds of drawing, by matplotlib without pyplot: rows with intervals, and curves."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matplotlib.axes import Axes

from reports import _words
from reports._pen import (
    CHANCE,
    DASHES,
    MARGIN,
    PROMISE,
    WIDTH,
    Bounds,
    Pen,
    Scale,
    linear,
    powers_of_ten,
)
from reports._svg import INK

ROW = 46.0


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
    blind: float | None = None
    blind_bounds: Bounds | None = None
    chance: float | None = None
    aside: str = ""


@dataclass(frozen=True)
class Curve:
    """ε spent (nats) after so many queries, and the query at which it stopped."""

    label: str
    points: list[tuple[int, float]]
    stopped_at: int | None


def scale_of(lines: list[Line], unit: str) -> Scale:
    """An axis that holds every value, interval and chance of these lines."""
    percent = _words.is_share(unit)
    values = [v for line in lines for v in _numbers(line) if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(values), max(values)
    positive = [v for v in values if v > 0]
    whole = percent or unit == "AUC"
    if not whole and unit != "bits" and low > 0 and high / min(positive) > 40:
        return powers_of_ten(low, high)  # bits are logarithms already
    if whole and low >= 0 and 0.5 < high <= 1:
        return Scale(0, 1, [0, 0.25, 0.5, 0.75, 1], False, percent)
    return linear(min(0.0, low), high if high > min(0.0, low) else low + 1, percent)


def _numbers(line: Line) -> list[float]:
    single = [line.value, line.twin, line.blind, line.chance]
    pairs = [*(line.bounds or ()), *(line.twin_bounds or ()), *(line.blind_bounds or ())]
    return [v for v in [*single, *pairs] if v is not None]


def rows(lines: list[Line], scale: Scale, unit: str, twins: bool, name: str) -> str:
    """One row a release: its label and value above an interval, its twins below. SVG text."""
    top, bottom = 26.0, 26.0 + ROW * len(lines)
    pen = Pen(bottom + 28)
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
    pen.quiet(page, WIDTH / 2, bottom + 24, _words.clip(note, 52), ha="center", fontsize=10)
    return pen.svg(name)


def _grid(pen: Pen, plot: Axes, scale: Scale, depth: float) -> None:
    bands = [(row + 17, row + 43) for row in range(0, int(depth), int(ROW))]
    for tick in scale.ticks:
        for band in bands:
            plot.plot([tick, tick], band, color=INK["rule"], lw=0.8, clip_on=False)
        text = _words.share(tick) if scale.percent else _words.number(tick)
        side = "left" if tick == scale.ticks[0] else "center"
        side = "right" if tick == scale.ticks[-1] else side
        pen.quiet(plot, tick, depth + 9, text, ha=side)


def _row(pen: Pen, plot: Axes, page: Axes, line: Line, y: float, top: float) -> None:
    weight = "normal" if line.reference else "bold"
    label = _words.clip(line.label, max(16, 52 - len(line.note)))
    pen.text(page, MARGIN, top + y + 13, label, fontweight=weight)
    known = line.value is not None
    pen.text(page, WIDTH - MARGIN, top + y + 13, line.note, ha="right", fontsize=9.5,
             color=INK["ink" if known else "muted"])  # fmt: skip
    if line.aside:
        pen.quiet(page, MARGIN + 5, top + y + 41, line.aside, fontsize=8.5)


def _marks(plot: Axes, line: Line, y: float, filled: bool) -> None:
    if line.chance is not None:
        plot.plot([line.chance] * 2, [y + 18, y + 42], clip_on=False, **CHANCE)
    if line.value is not None:
        _mark(plot, line.value, line.bounds, y + 25, filled)
    if line.twin is not None:
        _beside(plot, line.twin, line.twin_bounds, y + (36 if line.blind is None else 34), "s")
    if line.blind is not None:
        _beside(plot, line.blind, line.blind_bounds, y + (36 if line.twin is None else 41), "D")


def _mark(plot: Axes, value: float, bounds: Bounds | None, y: float, filled: bool) -> None:
    if bounds is not None:
        plot.plot(_finite(plot, bounds), [y, y], color=INK["accent"], lw=2.2, clip_on=False,
                  solid_capstyle="round")  # fmt: skip
    face = INK["accent"] if filled else INK["paper"]
    plot.plot(_finite(plot, (value,)), [y], "o", ms=7, mfc=face, mec=INK["accent"], mew=1.6,
              clip_on=False)  # fmt: skip


def _beside(plot: Axes, value: float, bounds: Bounds | None, y: float, shape: str) -> None:
    if bounds is not None:
        plot.plot(_finite(plot, bounds), [y, y], color=INK["muted"], lw=1.1, clip_on=False)
    plot.plot(_finite(plot, (value,)), [y], shape, ms=5 if shape == "s" else 4.4,
              mfc=INK["paper"], mec=INK["muted"], mew=1.2, clip_on=False)  # fmt: skip


def _finite(plot: Axes, values: tuple[float, ...]) -> list[float]:
    edge = plot.get_xlim()[1]
    return [min(value, edge) for value in values]


def _legend(pen: Pen, page: Axes, lines: list[Line], twins: bool) -> None:
    first = "planted" if twins else "audited"
    keys = [("o", 7.0, INK["accent"], INK["accent"], first)]
    if any(line.twin is not None for line in lines):
        keys.append(("s", 5.0, INK["paper"], INK["muted"], "twins"))
    if any(line.blind is not None for line in lines):
        keys.append(("D", 4.4, INK["paper"], INK["muted"], "blind"))
    if not twins:
        keys.append(("o", 7.0, INK["paper"], INK["accent"], "reference"))
    x = MARGIN + 4
    for marker, size, face, edge, text in keys:
        page.plot([x], [10], marker, ms=size, mfc=face, mec=edge, mew=1.5)
        pen.quiet(page, x + 8, 13.2, text, fontsize=9.5)
        x += 26 + 5.4 * len(text)
    if any(line.chance is not None for line in lines):
        page.plot([x, x], [4, 16], **CHANCE)
        pen.quiet(page, x + 6, 13.2, "chance", fontsize=9.5)


def curves(lines: list[Curve], promised: float | None, promise: str, unit: str, name: str) -> str:
    """ε spent over queries, one curve a session, the promise as a line. SVG text."""
    top = 16.0 + 15 * (len(lines) + 1)
    pen = Pen(top + 196)
    page = pen.page()
    plot = pen.axes(38, top + 10, WIDTH - MARGIN, top + 160)
    queries = max(1, *(x for line in lines for x, _ in line.points))
    most = max([promised or 0.0, *(y for line in lines for _, y in line.points)]) or 1.0
    across, up = linear(0, queries), linear(0, most * 1.12)
    plot.set(xlim=(0, across.high), ylim=(0, up.high))
    _frame(pen, plot, across, up)
    spender = f"ε spent in nats, by the {_words.clip(unit, 20)} that spent most"
    pen.quiet(page, 38, top, spender, fontsize=9.5)
    pen.quiet(page, WIDTH / 2, top + 190, "queries", ha="center", fontsize=10)
    if promised is not None:
        plot.plot([0, across.high], [promised] * 2, **PROMISE)
        page.plot([MARGIN, MARGIN + 26], [9, 9], **PROMISE)
    pen.text(page, MARGIN + 33, 12.3, _words.clip(promise, 60), fontsize=9.5)
    for index, line in enumerate(lines):
        _curve(pen, plot, page, line, index)
    return pen.svg(name)


def _frame(pen: Pen, plot: Axes, across: Scale, up: Scale) -> None:
    for tick in up.ticks:
        plot.plot([0, across.high], [tick, tick], color=INK["rule"], lw=0.7, clip_on=False)
        left = -0.015 * across.high
        pen.quiet(plot, left, tick, _words.number(tick), ha="right", va="center")
    for tick in across.ticks:
        side = "right" if tick == across.ticks[-1] else "center"
        pen.quiet(plot, tick, -0.1 * up.high, _words.number(tick), ha=side)


def _curve(pen: Pen, plot: Axes, page: Axes, line: Curve, index: int) -> None:
    dash = DASHES[index % len(DASHES)]
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
