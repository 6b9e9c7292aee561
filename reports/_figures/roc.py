"""ROC curves on logarithmic axes: what an attacker finds who may hardly ever be wrong."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from audit.results import words
from audit.results.schema import FindingResult, ReleaseResult
from audit.results.words import Bounds
from reports._content import wording
from reports._content.figure import Figure
from reports._content.releases import NamedRelease
from reports._content.table import Table, pieces
from reports._figures import canvas, svg
from reports._figures.canvas import CHANCE, Scale

MOST_RELEASES = 6
MOST_SCORES = 9
COLUMNS = 2
MARKED = (0.01, 0.001)
_LEAST = 1e-9  # a rate that a curve begins at
_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1, 2)), (0, (9, 3)))
_TARGET = re.compile(r"(record|(?:[a-z]+_)?span)_")
_CAPTION = (
    "FPR: share of the twins taken for members. TPR: share of the members identified. Grey: fewer "
    "than one twin, so nothing can be measured. Dashed diagonal: nothing leaked."
)

Curves = dict[str, FindingResult]  # by the name of the score
Chosen = list[tuple[NamedRelease, Curves]]


def figures(releases: Sequence[NamedRelease]) -> Iterator[Figure]:
    """Draw a figure for each attack and target, a panel for each release, a line for each score."""
    drawn = [f for one in releases for f in one.release.findings if f.roc]
    subjects = dict.fromkeys((f.attack, _target(f.metric)) for f in drawn)
    for index, (attack, target) in enumerate(subjects):
        every = [(one, _curves(one.release, attack, target)) for one in releases]
        chosen = [pair for pair in every if pair[1]]
        scores = list(dict.fromkeys(s for _, curves in chosen for s in curves))
        subject = ", ".join(filter(None, [wording.spelled(attack), wording.spelled(target)]))
        for suffix, piece in pieces(len(chosen), MOST_RELEASES):
            title = f"{subject}: ROC on logarithmic axes{suffix}"
            yield _figure(title, scores, chosen[piece], f"roc{index}-{piece.start}")


def _target(metric: str) -> str:
    found = _TARGET.match(metric)
    return found.group(1) if found else ""


def _curves(release: ReleaseResult, attack: str, target: str) -> Curves:
    return {
        wording.spelled(f.metric.removeprefix(f"{target}_").removesuffix("_auc")): f
        for f in release.findings
        if f.roc and f.attack == attack and _target(f.metric) == target
    }


def _figure(title: str, scores: list[str], chosen: Chosen, name: str) -> Figure:
    rows = [
        [one.name, score, wording.value(finding), *(_read(finding, fpr) for fpr in MARKED)]
        for one, curves in chosen
        for score, finding in curves.items()
    ]
    values = "; ".join(f"{r[0]}, {r[1]}: AUC {r[2]}, TPR at 1 % FPR {r[3]}" for r in rows)
    heads = [f"TPR at {words.share(fpr)} FPR, read off the curve" for fpr in MARKED]
    left_out = len(scores) - MOST_SCORES
    extra = f" {left_out} more scores stand in the table." if left_out > 0 else ""
    scores = scores[:MOST_SCORES]
    height = 38 + 14 * math.ceil(len(scores) / COLUMNS) + 130 * math.ceil(len(chosen) / COLUMNS)
    return Figure(
        title=title,
        caption=_CAPTION + extra,
        alternative=f"{title}, true against false positive rate by release. {values}.",
        svg=canvas.drawing(name, height, functools.partial(_paint, scores=scores, chosen=chosen)),
        table=Table(title, ["Release", "Score", "AUC [interval]", *heads], rows),
    )


def _floor(roc: Sequence[Bounds]) -> float:
    """Return the smallest false positive rate above 0: that of a single twin."""
    return min((fpr for fpr, _ in roc if fpr > 0), default=1.0)


def _at(roc: Sequence[Bounds], fpr: float) -> float | None:
    """Return the curve's height at a false positive rate; None where one twin is already more."""
    if fpr < _floor(roc) * (1 - 1e-9):
        return None
    return max((tpr for x, tpr in roc if x <= fpr * (1 + 1e-9)), default=None)


def _read(finding: FindingResult, fpr: float) -> str:
    value = _at(finding.roc or [], fpr)
    return "too few twins" if value is None else words.share(value)


def _paint(page: Canvas, scores: list[str], chosen: Chosen) -> None:
    rocs = [f.roc for _, curves in chosen for f in curves.values() if f.roc]
    low = 10.0 ** min(-3, math.floor(math.log10(max(_LEAST, min(map(_floor, rocs))))))
    scale = canvas.decades(low, 1.0, "rate")
    count = math.ceil(len(chosen) / COLUMNS)
    panels = page.subplots(count, COLUMNS, sharex=True, sharey=True, squeeze=False).flat
    entries: dict[str, Artist] = {}
    for axes, (one, curves) in zip(panels, chosen, strict=False):
        canvas.across(axes, scale)
        canvas.up(axes, scale)
        weight = "normal" if one.release.reference else "bold"
        axes.set_title(wording.clip(one.name, 22), fontweight=weight)
        axes.grid(visible=True)
        floor = min(_floor(f.roc or []) for f in curves.values())
        axes.axvspan(low, floor, color=svg.RULE, lw=0)
        axes.plot([low, 1], [low, 1], **{**CHANCE, "lw": 0.9})
        for fpr in MARKED:
            axes.axvline(fpr, **{**CHANCE, "lw": 0.8})
        for index, score in enumerate(scores):
            if score in curves:
                entries[score] = _curve(axes, curves[score].roc or [], scale, index)
    for axes in list(panels)[len(chosen) :]:
        axes.remove()
    page.supxlabel("FPR", color=svg.MUTED)
    page.supylabel("TPR", color=svg.MUTED)
    keys = [(entries[s], wording.clip(s, 20)) for s in scores if s in entries]
    canvas.legend(page, keys, COLUMNS)


def _thinned(roc: Sequence[Bounds], low: float) -> list[Bounds]:
    """Keep the last of the points in each thirtieth of a decade, which is about 1.2 pt."""
    last = {tuple(round(30 * math.log10(max(rate, low))) for rate in p): p for p in roc}
    return list(last.values())


def _curve(axes: Axes, roc: Sequence[Bounds], scale: Scale, index: int) -> Artist:
    """Draw the steps of a curve from the first rate that a twin could show, and its marks."""
    floor = _floor(roc)
    start = max((tpr for fpr, tpr in roc if fpr < floor), default=scale.low)
    points = [(floor, start), *_thinned([point for point in roc if point[0] >= floor], scale.low)]
    color = (svg.ACCENT, svg.INK, svg.MUTED)[index % 3]
    dash: Any = _DASHES[index % 5]
    fprs, tprs = zip(*points, strict=True)
    (line,) = axes.step(fprs, scale.inside(*tprs), where="post", color=color, ls=dash, marker="")
    for fpr in MARKED:
        if (tpr := _at(roc, fpr)) is not None:
            axes.plot([fpr], scale.inside(tpr), "o", ms=3, color=color)
    return line
