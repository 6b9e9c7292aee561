"""Lines over a swept quantity: points with intervals, levels of references, a forbidden region.

Lines are told apart by marker and dash, not by hue. An interval that leaves the frame is cut there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes

from reports import _words
from reports._pen import DASHES, MARGIN, WIDTH, Bounds, Pen, Scale, linear
from reports._svg import INK

MARKERS = "osD^vP"
LEFT, DEPTH, LINE = 44.0, 160.0, 15.0
_LEVELS = [DASHES[2], DASHES[1], DASHES[3], DASHES[5]]
_DODGE = 5.0  # points between lines that share their places; none beside a forbidden region


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
    """One line; without points it is in the legend only, with the reason in its label."""

    label: str
    points: list[Point]
    joined: bool = True


@dataclass(frozen=True)
class Level:
    """A reference that does not depend on what is swept."""

    label: str
    value: float


@dataclass(frozen=True)
class Plot:
    """A drawing: its lines, and what its axes say. forbidden: y above x refutes a claim."""

    series: list[Series]
    levels: list[Level]
    across: str
    up: str
    forbidden: bool = False

    @property
    def points(self) -> list[Point]:
        return [point for line in self.series for point in line.points]


@dataclass(frozen=True)
class Frame:
    """Where values lie on the page, in points."""

    across: Scale
    up: Scale
    top: float

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - MARGIN - LEFT) * _share(self.across, value)

    def y(self, value: float) -> float:
        return self.top + DEPTH * (1 - _share(self.up, value))


def draw(plot: Plot, name: str) -> str:
    """SVG text."""
    entries = len(plot.series) + len(plot.levels)
    top = LINE * entries + 26
    pen = Pen(top + DEPTH + 34)
    page = pen.page()
    frame = Frame(_across(plot), _up(plot), top)
    if plot.forbidden:
        _forbid(pen, page, frame)
    _ticks(pen, page, frame, plot)
    for row, level in enumerate(plot.levels):
        look = {"color": INK["muted"], "lw": 1.2, "ls": _LEVELS[row % len(_LEVELS)]}
        y = frame.y(level.value)
        page.plot([LEFT, WIDTH - MARGIN], [y, y], **look)
        place = LINE * (len(plot.series) + row) + 9
        page.plot([MARGIN, MARGIN + 26], [place, place], **look)
        pen.quiet(page, MARGIN + 33, place + 3.3, _words.clip(level.label, 56), fontsize=9.5)
    for row, line in enumerate(plot.series):
        dodge = 0.0 if plot.forbidden else _DODGE * (row - (len(plot.series) - 1) / 2)
        _line(page, frame, line, row, dodge if line.joined else 0.0)
        _key(pen, page, line, row)
    return pen.svg(name)


def _ticks(pen: Pen, page: Axes, frame: Frame, plot: Plot) -> None:
    right, bottom = WIDTH - MARGIN, frame.top + DEPTH
    percent = frame.up.percent
    for tick in frame.up.ticks:
        page.plot([LEFT, right], [frame.y(tick)] * 2, color=INK["rule"], lw=0.7, zorder=0.5)
        text = _words.share(tick) if percent else _words.number(tick)
        pen.quiet(page, LEFT - 5, frame.y(tick) + 3.2, text, ha="right")
    for tick in frame.across.ticks:
        page.plot([frame.x(tick)] * 2, [bottom, bottom + 3], color=INK["muted"], lw=0.7)
        pen.quiet(page, frame.x(tick), bottom + 13, _words.number(tick), ha="center")
    up = f"{plot.up}, log scale" if frame.up.logarithmic else plot.up
    pen.quiet(page, MARGIN, frame.top - 9, _words.clip(up, 58), fontsize=9.5)
    log = ", log scale" if frame.across.logarithmic and len(plot.across) < 50 else ""
    across = _words.clip(plot.across + log, 62)
    pen.quiet(page, (LEFT + right) / 2, bottom + 28, across, ha="center")


def _line(page: Axes, frame: Frame, line: Series, row: int, shift: float) -> None:
    color, dash = _look(row)
    places = [(frame.x(p.x) + shift, frame.y(p.y)) for p in line.points]
    if line.joined and len(places) > 1:
        page.plot(*zip(*places, strict=True), color=color, lw=1.4, ls=dash, zorder=2)
    for point, (x, y) in zip(line.points, places, strict=True):
        if point.bounds is not None:
            low, high = (_cut(frame.y(b), frame.top, frame.top + DEPTH) for b in point.bounds)
            page.plot([x, x], [low, high], color=color, lw=1.1, zorder=2)
        if point.across is not None:
            left, right = (_cut(frame.x(b), LEFT, WIDTH - MARGIN) for b in point.across)
            page.plot([left, right], [y, y], color=color, lw=1.1, zorder=2)
        face = INK["paper"] if point.hollow else color
        page.plot([x], [y], MARKERS[row % len(MARKERS)], ms=5.6, mfc=face, mec=color, mew=1.3,
                  zorder=3)  # fmt: skip


def _key(pen: Pen, page: Axes, line: Series, row: int) -> None:
    color, dash = _look(row)
    y = LINE * row + 9
    hollow = bool(line.points) and all(p.hollow for p in line.points)
    if line.joined:
        page.plot([MARGIN, MARGIN + 26], [y, y], color=color, lw=1.4, ls=dash)
    page.plot([MARGIN + 13], [y], MARKERS[row % len(MARKERS)], ms=5.6, mec=color, mew=1.3,
              mfc=INK["paper"] if hollow else color)  # fmt: skip
    pen.text(page, MARGIN + 33, y + 3.3, _words.clip(line.label, 56), fontsize=9.5)


def _look(row: int) -> tuple[str, object]:
    return INK["ink" if row % 2 else "accent"], DASHES[row % len(DASHES)]


def _forbid(pen: Pen, page: Axes, frame: Frame) -> None:
    """What lies above the diagonal refutes a claim."""
    low, high = frame.across.low, frame.across.high
    steps = [low + (high - low) * i / 60 for i in range(61)]
    if frame.across.logarithmic:
        steps = [low * (high / low) ** (i / 60) for i in range(61)]
    xs, edge = [frame.x(s) for s in steps], [frame.y(min(s, frame.up.high)) for s in steps]
    page.fill_between(xs, edge, frame.top, color=INK["rule"], lw=0, zorder=0.2, alpha=0.55)
    page.plot(xs, edge, color=INK["ink"], lw=1.0, ls=(0, (1, 2)), zorder=1)
    pen.quiet(page, LEFT + 6, frame.top + 12, "above the claim: refutes it", fontsize=9)


def _across(plot: Plot) -> Scale:
    values = [p.x for p in plot.points] or [1.0]
    return scale([*values, max(values) * 1.03], [b for p in plot.points for b in p.across or ()])


def _up(plot: Plot) -> Scale:
    values = [p.y for p in plot.points] + [level.value for level in plot.levels]
    if plot.forbidden:
        values.append(_across(plot).high)
    return scale(values, [b for p in plot.points for b in p.bounds or ()], plot.up)


def scale(values: Sequence[float], bounds: Sequence[float], unit: str = "") -> Scale:
    """An axis for values, logarithmic where positive ones differ more than twelvefold.

    Shares and areas show their intervals whole, and are never logarithmic, as bits are not; other
    intervals widen the axis by no more than the values' own span.
    """
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    share = _words.is_share(unit)
    bounded = share or unit == "AUC"
    if low > 0 and high / low > 12 and not bounded and unit != "bits":
        return _logarithmic(low, high)
    room = math.inf if bounded or low == high else max(high - low, 0.15 * abs(high))
    known = [b for b in bounds if math.isfinite(b)]
    least = min([low, *(max(b, low - room) for b in known)])
    most = max([high, *(min(b, high + room) for b in known)])
    if low >= 0 and (bounded or least < 0.4 * most):
        least = 0.0
    return linear(least, most if most > least else least + 1, share)


def _logarithmic(low: float, high: float) -> Scale:
    """Ticks at 1, 2 and 5 times powers of ten, or at the powers alone where they are many."""
    low, high = low / 1.3, high * 1.3
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) < 2.2 else (1,)
    ticks = [f * 10.0**p for p in powers for f in factors]
    inside = [tick for tick in ticks if low <= tick <= high]
    step = math.ceil(len(inside) / 7)
    return Scale(low, high, inside[::step], True, False)


def _share(scale: Scale, value: float) -> float:
    """Where a value lies on an axis, 0 to 1; what lies beyond stays at the end."""
    low, high = scale.low, scale.high
    if scale.logarithmic:
        value, low, high = (math.log(max(v, 1e-300)) for v in (value, low, high))
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _cut(place: float, low: float, high: float) -> float:
    return min(high, max(low, place))


def thinned(plot: Plot, most: int = 6) -> list[Plot]:
    """The same drawing in parts of at most `most` lines."""
    parts = range(0, max(1, len(plot.series)), most)
    return [replace(plot, series=plot.series[start : start + most]) for start in parts]
