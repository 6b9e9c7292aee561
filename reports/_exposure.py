"""Exposure histograms: planted secrets above the line, twins below, and what was never seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from matplotlib.axes import Axes

from audit.results.schema import Exposures, FindingResult, ReleaseResult
from reports import _words
from reports._figure import Figure, Table, pieces
from reports._pen import CHANCE, MARGIN, WIDTH, Pen, linear
from reports._svg import INK

MOST_RELEASES = 6
MOST_TIERS = 4
ROW = 94.0
GAP = 14.0
_LARGEST = 2.0**64  # candidates that an axis has room for
HALF = 30.0  # points from the line to the tallest bar

Chosen = list[tuple[ReleaseResult, str, list[FindingResult | None]]]


@dataclass(frozen=True)
class _Frame:
    """One small histogram: its place, its axis of bits and the tallest share."""

    left: float
    width: float
    line: float
    bits: float
    tallest: float

    def x(self, bits: float) -> float:
        return self.left + self.width * min(bits, self.bits) / self.bits

    def y(self, share: float, side: int) -> float:
        return self.line - side * HALF * share / self.tallest


def figures(releases: Sequence[ReleaseResult], names: Sequence[str]) -> Iterator[Figure]:
    """A row of histograms for each release, a column for each tier of copies."""
    found = [
        {(f.attack, f.metric): f for f in release.findings if f.exposures} for release in releases
    ]
    rows = [i for i in range(len(releases)) if found[i]]
    kinds = list(dict.fromkeys(kind for i in rows for kind in found[i]))
    for index, attack in enumerate(dict.fromkeys(attack for attack, _ in kinds)):
        tiers = [kind for kind in kinds if kind[0] == attack]
        parts = list(
            product(
                [tiers[piece] for _, piece in pieces(len(tiers), MOST_TIERS)],
                [rows[piece] for _, piece in pieces(len(rows), MOST_RELEASES)],
            )
        )
        for part, (columns, which) in enumerate(parts):
            suffix = f", part {part + 1} of {len(parts)}" if len(parts) > 1 else ""
            chosen = [(releases[i], names[i], [found[i].get(k) for k in columns]) for i in which]
            heads = [_words.metric(*kind) for kind in columns]
            title = f"{_words.words(attack)} of each secret, in bits{suffix}"
            yield _figure(title, heads, chosen, f"exposure{index}-{part}")


def _figure(title: str, heads: list[str], chosen: Chosen, name: str) -> Figure:
    rows = [
        _numbers(label, head, finding)
        for _, label, findings in chosen
        for head, finding in zip(heads, findings, strict=True)
        if finding is not None
    ]
    told = "; ".join(f"{r[0]}, {r[1]}: planted {r[2]}, twins {r[3]}" for r in rows)
    head = ["Release", "Measure", "Planted, median [interval]", "Twins, median", "Secrets"]
    head += ["Never seen, mean", "Highest possible"]
    return Figure(
        title=title,
        caption="Height: the share of the secrets in each bit. Dashed curve: secrets no model "
        "has seen; dashed stroke: their mean. Solid stroke: the highest exposure possible.",
        alternative=f"{title}: histograms by release. Medians: {told}.",
        svg=_draw(heads, chosen, name),
        table=Table(title, head, rows),
    )


def _numbers(label: str, head: str, finding: FindingResult) -> list[str]:
    exposures, control = finding.exposures, finding.control
    assert exposures is not None
    twins = "none" if control is None else _words.measured(control.value, control.ci, "bits")
    return [
        label,
        head,
        _words.measured(finding.value, finding.ci, "bits"),
        twins,
        f"{len(exposures.planted)} planted, {len(exposures.twins)} twins",
        _words.number(exposures.null),
        _words.number(_ceiling(exposures)),
    ]


def _ceiling(exposures: Exposures) -> float:
    return math.log2(min(max(exposures.space, 2.0), _LARGEST))


def _shares(bits: Sequence[float]) -> list[float]:
    """The share of the secrets in [0, 1), [1, 2), … bits."""
    whole = [int(min(max(b, 0.0), math.log2(_LARGEST))) for b in bits]
    counts = Counter(whole)
    return [counts[b] / max(1, len(bits)) for b in range(1 + max(whole, default=0))]


def _draw(heads: list[str], chosen: Chosen, name: str) -> str:
    top, bottom = 42.0, 42.0 + ROW * len(chosen)
    pen = Pen(bottom + 22)
    page = pen.page()
    _legend(pen, page)
    drawn = [f.exposures for _, _, found in chosen for f in found if f and f.exposures]
    scale = linear(0, max(map(_ceiling, drawn)))
    sides = [side for e in drawn for side in (e.planted, e.twins)]
    tallest = max(0.5, *(share for side in sides for share in _shares(side)))
    width = (WIDTH - 2 * MARGIN - GAP * (len(heads) - 1)) / len(heads)
    for column, head in enumerate(heads):
        x = MARGIN + (width + GAP) * column
        pen.quiet(page, x, top - 6, _words.clip(head, int(width / 5)), fontsize=9.5)
        for row, (release, label, found) in enumerate(chosen):
            y = top + ROW * row
            if column == 0:
                weight = "normal" if release.reference else "bold"
                pen.text(page, MARGIN, y + 11, _words.clip(label, 44), fontweight=weight)
            frame = _Frame(x, width, y + 29 + HALF, scale.high, tallest)
            _panel(pen, page, frame, found[column], scale.ticks)
        for tick in (scale.ticks[0], scale.ticks[-1]):
            side = "left" if tick == scale.ticks[0] else "right"
            pen.quiet(page, frame.x(tick), bottom + 6, _words.number(tick), ha=side)
    pen.quiet(page, WIDTH / 2, bottom + 18, "exposure in bits", ha="center", fontsize=10)
    return pen.svg(name)


def _panel(
    pen: Pen, page: Axes, frame: _Frame, finding: FindingResult | None, ticks: list[float]
) -> None:
    exposures = finding.exposures if finding else None
    if finding is None or exposures is None or finding.value is None:
        pen.quiet(page, frame.left, frame.line, "not measured")
        return
    for tick in ticks:
        ends = [frame.line - HALF, frame.line + HALF]
        page.plot([frame.x(tick)] * 2, ends, color=INK["rule"], lw=0.6)
    _bars(page, frame, exposures.planted, 1)
    _bars(page, frame, exposures.twins, -1)
    page.plot([frame.left, frame.left + frame.width], [frame.line] * 2, color=INK["ink"], lw=0.8)
    _null(page, frame, exposures)
    ceiling = frame.x(_ceiling(exposures))
    page.plot([ceiling] * 2, [frame.line - HALF, frame.line + HALF], color=INK["ink"], lw=1.1)
    median = f"median {_words.number(finding.value)}"
    pen.quiet(page, frame.left + frame.width, frame.line - HALF - 4, median, ha="right",
              fontsize=8.5)  # fmt: skip


def _bars(page: Axes, frame: _Frame, bits: Sequence[float], side: int) -> None:
    """One outline over the bars of a side: +1 planted, upwards; −1 twins, downwards."""
    xs, ys = [frame.x(0)], [frame.line]
    for low, share in enumerate(_shares(bits)):
        xs += [frame.x(low), frame.x(low + 1)]
        ys += [frame.y(share, side)] * 2
    face, edge = ("accent", "accent") if side > 0 else ("paper", "muted")
    page.fill([*xs, xs[-1]], [*ys, frame.line], fc=INK[face], ec=INK[edge], lw=0.9)


def _null(page: Axes, frame: _Frame, exposures: Exposures) -> None:
    """A never-seen secret has uniform rank: a density of ln 2 · 2^(−b) at b bits."""
    ceiling = _ceiling(exposures)
    bits = [b / 4 for b in range(int(4 * min(ceiling, 7.0)) + 1)]
    for side in (1, -1) if exposures.twins else (1,):
        ys = [frame.y(min(math.log(2) * 2.0**-b, frame.tallest), side) for b in bits]
        page.plot([frame.x(b) for b in bits], ys, **{**CHANCE, "lw": 0.9})
    mean = [frame.x(exposures.null)] * 2
    page.plot(mean, [frame.line - HALF, frame.line + HALF], **{**CHANCE, "lw": 0.9})


def _legend(pen: Pen, page: Axes) -> None:
    page.plot([MARGIN + 4], [10], "s", ms=7, mfc=INK["accent"], mec=INK["accent"])
    pen.quiet(page, MARGIN + 12, 13.2, "planted", fontsize=9.5)
    page.plot([MARGIN + 64], [10], "s", ms=7, mfc=INK["paper"], mec=INK["muted"], mew=1.2)
    pen.quiet(page, MARGIN + 72, 13.2, "twins (below)", fontsize=9.5)
    page.plot([MARGIN + 150, MARGIN + 170], [10, 10], **CHANCE)
    pen.quiet(page, MARGIN + 176, 13.2, "never seen", fontsize=9.5)
    page.plot([MARGIN + 242] * 2, [4, 16], color=INK["ink"], lw=1.1)
    pen.quiet(page, MARGIN + 247, 13.2, "ceiling", fontsize=9.5)
