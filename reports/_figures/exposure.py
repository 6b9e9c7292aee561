"""Exposure histograms: planted secrets above the line, twins below, beside secrets never seen."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from audit.results import words
from audit.results.schema import FindingResult
from reports._content import wording
from reports._content.figure import Figure
from reports._content.releases import NamedRelease
from reports._content.table import Table, pieces
from reports._figures import canvas, svg
from reports._figures.canvas import CHANCE, Scale

MOST_RELEASES = 6
MOST_TIERS = 4
_HEIGHT = 88.0  # points of a row
_LARGEST = 2.0**64  # candidates that an axis has room for
_HEAD = ["Release", "Measure", "Planted, median [interval]", "Twins, median", "Secrets",
         "Never seen, mean", "Highest possible"]  # fmt: skip
_CAPTION = (
    "Height: the share of the secrets in each bit. Dashed curve: secrets no model has seen; dashed "
    "stroke: their mean. Solid stroke: the highest exposure possible."
)

Chosen = list[tuple[NamedRelease, list[FindingResult | None]]]


def figures(releases: Sequence[NamedRelease]) -> Iterator[Figure]:
    """Return a row of histograms for each release, a column for each tier of copies."""
    tables = [
        (one, {(f.attack, f.metric): f for f in one.release.findings if f.exposures})
        for one in releases
    ]
    rows = [pair for pair in tables if pair[1]]
    kinds = list(dict.fromkeys(kind for _, table in rows for kind in table))
    for index, attack in enumerate(dict.fromkeys(attack for attack, _ in kinds)):
        tiers = [kind for kind in kinds if kind[0] == attack]
        columns = [tiers[piece] for _, piece in pieces(len(tiers), MOST_TIERS)]
        lines = [rows[piece] for _, piece in pieces(len(rows), MOST_RELEASES)]
        parts = list(product(columns, lines))
        for part, (column, line) in enumerate(parts):
            suffix = f", part {part + 1} of {len(parts)}" if len(parts) > 1 else ""
            chosen = [(one, [table.get(kind) for kind in column]) for one, table in line]
            heads = [wording.metric(*kind) for kind in column]
            title = f"{wording.spelled(attack)} of each secret, in bits{suffix}"
            yield _figure(title, heads, chosen, f"exposure{index}-{part}")


def _figure(title: str, heads: list[str], chosen: Chosen, name: str) -> Figure:
    rows = [
        _numbers(one.name, head, finding)
        for one, findings in chosen
        for head, finding in zip(heads, findings, strict=True)
        if finding is not None
    ]
    medians = "; ".join(f"{r[0]}, {r[1]}: planted {r[2]}, twins {r[3]}" for r in rows)
    paint = functools.partial(_paint, heads=heads, chosen=chosen)
    return Figure(
        title=title,
        caption=_CAPTION,
        alternative=f"{title}: histograms by release. Medians: {medians}.",
        svg=canvas.drawing(name, 74 + _HEIGHT * len(chosen), paint),
        table=Table(title, _HEAD, rows),
    )


def _numbers(label: str, head: str, finding: FindingResult) -> list[str]:
    exposures = finding.exposures
    assert exposures is not None
    return [
        label,
        head,
        words.measured(finding.value, finding.ci, "bits"),
        wording.beside(finding.control, "bits"),
        f"{len(exposures.planted)} planted, {len(exposures.twins)} twins",
        words.number(exposures.null),
        words.number(_ceiling(finding)),
    ]


def _ceiling(finding: FindingResult) -> float:
    return math.log2(min(max(finding.space or 2.0, 2.0), _LARGEST))


def _shares(bits: Sequence[float]) -> list[float]:
    """Return the share of the secrets in [0, 1), [1, 2), … bits."""
    whole = [int(min(max(b, 0.0), math.log2(_LARGEST))) for b in bits]
    counts = Counter(whole)
    return [counts[b] / max(1, len(bits)) for b in range(1 + max(whole, default=0))]


def _paint(page: Canvas, heads: list[str], chosen: Chosen) -> None:
    drawn = [f for _, row in chosen for f in row if f and f.exposures]
    sides = [side for f in drawn if (e := f.exposures) for side in (e.planted, e.twins)]
    tallest = max(0.5, *(share for side in sides for share in _shares(side)))
    grid = page.subplots(len(chosen), len(heads), sharex=True, sharey=True, squeeze=False)
    entries: dict[str, Artist] = {}
    for panels, (one, findings) in zip(grid, chosen, strict=True):
        weight = "normal" if one.release.reference else "bold"
        panels[0].set_title(wording.clip(one.name, 44), fontweight=weight, pad=15)
        for axes, finding in zip(panels, findings, strict=True):
            entries |= _panel(axes, finding, tallest)
    high = canvas.linear(0, max(map(_ceiling, drawn))).high
    scale = Scale(0, high, [0, high / 2, high])
    for axes, head in zip(grid[-1], heads, strict=True):
        canvas.across(axes, scale, wording.clip(head, 60 // len(heads)))
    grid[0, 0].set(ylim=(-tallest, tallest), yticks=[])
    page.supxlabel("exposure in bits", color=svg.MUTED)
    canvas.legend(page, [(artist, text) for text, artist in entries.items()], columns=2)


def _panel(axes: Axes, finding: FindingResult | None, tallest: float) -> dict[str, Artist]:
    """Draw one histogram and return what its legend explains."""
    exposures = finding.exposures if finding else None
    known = finding is not None and exposures is not None and finding.value is not None
    note = f"median {words.number(finding.value or 0.0)}" if finding and known else "not measured"
    axes.annotate(note, (1, 1), (0, 3), "axes fraction", "offset points", ha="right",
                  fontsize=8.5, color=svg.MUTED)  # fmt: skip
    if finding is None or exposures is None or not known:
        axes.set_frame_on(False)
        return {}
    planted, twins = _shares(exposures.planted), [-s for s in _shares(exposures.twins)]
    above = axes.stairs(planted, range(len(planted) + 1), fill=True, fc=svg.ACCENT)
    below = axes.stairs(twins, range(len(twins) + 1), fill=True, fc=svg.PAPER, ec=svg.MUTED, lw=0.9)
    axes.axhline(0, color=svg.INK, lw=0.8, marker="")
    ceiling = _ceiling(finding)
    bits = [b / 4 for b in range(int(4 * min(ceiling, 7.0)) + 1)]
    # A secret never seen has a uniform rank: a density of ln 2 · 2^(−b) at b bits.
    density = [min(math.log(2) * 2.0**-b, tallest) for b in bits]
    for side in (1, -1) if exposures.twins else (1,):
        (never,) = axes.plot(bits, [side * d for d in density], **CHANCE)
    axes.axvline(exposures.null, **CHANCE)
    end = axes.axvline(ceiling, color=svg.INK, lw=1.1, marker="")
    return {"planted": above, "twins (below)": below, "never seen": never, "ceiling": end}
