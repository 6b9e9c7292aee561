"""ROC curves on logarithmic axes: what an attacker finds who may hardly ever be wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from audit.results.schema import FindingResult, ReleaseResult
from reports import _words
from reports._figure import Figure, Table, pieces
from reports._pen import CHANCE, DASHES, MARGIN, WIDTH, Bounds, Pen
from reports._svg import INK

MOST_RELEASES = 6
MOST_SCORES = 9
COLUMNS = 2
LEFT = 36.0
SIDE = 116.0  # points
ROW = SIDE + 30
MARKED = (0.01, 0.001)
_TARGETS = ("record", "span")

Curves = dict[str, FindingResult]  # by the name of the score
Chosen = list[tuple[ReleaseResult, str, Curves]]


@dataclass(frozen=True)
class _Frame:
    """One panel; both axes run from `low` to 1."""

    left: float
    top: float
    low: float

    def x(self, rate: float) -> float:
        return self.left + SIDE * self._part(rate)

    def y(self, rate: float) -> float:
        return self.top + SIDE * (1 - self._part(rate))

    def _part(self, rate: float) -> float:
        return 1 - math.log(min(1.0, max(rate, self.low))) / math.log(self.low)


def figures(releases: Sequence[ReleaseResult], names: Sequence[str]) -> Iterator[Figure]:
    """One figure for each attack and target, a panel for each release, a line for each score."""
    subjects = dict.fromkeys(
        (f.attack, _target(f.metric)) for release in releases for f in release.findings if f.roc
    )
    for index, (attack, target) in enumerate(subjects):
        chosen = [
            (release, name, curves)
            for release, name in zip(releases, names, strict=True)
            if (curves := _curves(release, attack, target))
        ]
        scores = list(dict.fromkeys(s for _, _, curves in chosen for s in curves))
        subject = ", ".join(filter(None, [_words.words(attack), target]))
        for suffix, piece in pieces(len(chosen), MOST_RELEASES):
            title = f"{subject}: ROC on logarithmic axes{suffix}"
            yield _figure(title, scores, chosen[piece], f"roc{index}-{piece.start}")


def _target(metric: str) -> str:
    return next((t for t in _TARGETS if metric.startswith(f"{t}_")), "")


def _curves(release: ReleaseResult, attack: str, target: str) -> Curves:
    return {
        _words.words(f.metric.removeprefix(f"{target}_").removesuffix("_auc")): f
        for f in release.findings
        if f.roc and f.attack == attack and _target(f.metric) == target
    }


def _figure(title: str, scores: list[str], chosen: Chosen, name: str) -> Figure:
    rows = [
        [label, score, _words.measured(finding.value, finding.ci, finding.unit),
         *(_read(finding, fpr) for fpr in MARKED)]
        for _, label, curves in chosen
        for score, finding in curves.items()
    ]  # fmt: skip
    told = "; ".join(f"{r[0]}, {r[1]}: AUC {r[2]}, TPR at 1 % FPR {r[3]}" for r in rows)
    heads = [f"TPR at {_words.share(fpr)} FPR, read off the curve" for fpr in MARKED]
    left_out = len(scores) - MOST_SCORES
    extra = f" {left_out} more scores stand in the table." if left_out > 0 else ""
    return Figure(
        title=title,
        caption="FPR: share of the twins taken for members. TPR: share of the members found. "
        "Grey: fewer than one twin, nothing can be measured. Dashed diagonal: nothing leaked."
        + extra,
        alternative=f"{title}, true against false positive rate by release. {told}.",
        svg=_draw(scores[:MOST_SCORES], chosen, name),
        table=Table(title, ["Release", "Score", "AUC [interval]", *heads], rows),
    )


def _floor(roc: Sequence[Bounds]) -> float:
    """The smallest false positive rate above 0: that of a single twin."""
    return min((fpr for fpr, _ in roc if fpr > 0), default=1.0)


def _at(roc: Sequence[Bounds], fpr: float) -> float | None:
    """The curve's height at a false positive rate; None where one twin is already more."""
    if fpr < _floor(roc) * (1 - 1e-9):
        return None
    return max((tpr for x, tpr in roc if x <= fpr * (1 + 1e-9)), default=None)


def _read(finding: FindingResult, fpr: float) -> str:
    value = _at(finding.roc or [], fpr)
    return "too few twins" if value is None else _words.share(value)


def _draw(scores: list[str], chosen: Chosen, name: str) -> str:
    legend = 15.0 * math.ceil(len(scores) / COLUMNS)
    rows = math.ceil(len(chosen) / COLUMNS)
    pen = Pen(legend + ROW * rows + 30)
    page = pen.page()
    _legend(pen, page, scores)
    rocs = [f.roc for _, _, curves in chosen for f in curves.values() if f.roc]
    low = 10.0 ** min(-3, math.floor(math.log10(min(map(_floor, rocs)))))
    gap = WIDTH - MARGIN - 3 - LEFT - COLUMNS * SIDE
    for index, (release, label, curves) in enumerate(chosen):
        row, column = divmod(index, COLUMNS)
        frame = _Frame(LEFT + column * (SIDE + gap), legend + 30 + row * ROW, low)
        weight = "normal" if release.reference else "bold"
        pen.text(page, frame.left, frame.top - 6, _words.clip(label, 22), fontweight=weight)
        last = index + COLUMNS >= len(chosen)
        _axes(pen, page, frame, min(_floor(f.roc or []) for f in curves.values()), column, last)
        for score, finding in curves.items():
            if score in scores:
                _curve(page, frame, finding.roc or [], _look(scores.index(score)))
    pen.quiet(page, LEFT - 6, legend + 24, "TPR", ha="right", fontsize=9.5)
    pen.quiet(page, LEFT + SIDE + gap / 2, pen.height - 3, "FPR", ha="center", fontsize=9.5)
    return pen.svg(name)


def _look(index: int) -> dict[str, Any]:
    color = INK[("accent", "ink", "muted")[index % 3]]
    return {"color": color, "ls": DASHES[(index // 3 + index) % len(DASHES)], "lw": 1.4}


def _legend(pen: Pen, page: Axes, scores: list[str]) -> None:
    for index, score in enumerate(scores):
        x = MARGIN + (index % COLUMNS) * (WIDTH - 2 * MARGIN) / COLUMNS
        y = 9 + 15 * (index // COLUMNS)
        page.plot([x, x + 26], [y, y], **_look(index))
        pen.text(page, x + 33, y + 3.3, _words.clip(score, 20), fontsize=9.5)


def _axes(pen: Pen, page: Axes, frame: _Frame, floor: float, column: int, last: bool) -> None:
    left, right, bottom, top = frame.left, frame.left + SIDE, frame.top + SIDE, frame.top
    edge = frame.x(floor)
    page.fill([left, edge, edge, left], [bottom, bottom, top, top], fc=INK["rule"], lw=0)
    for power in range(round(math.log10(frame.low)), 1):
        rate = 10.0**power
        x, y = frame.x(rate), frame.y(rate)
        marked = rate in MARKED
        dash = {**CHANCE, "lw": 0.8} if marked else {"color": INK["rule"], "lw": 0.7}
        page.plot([x, x], [bottom, top], **dash)
        page.plot([left, right], [y, y], color=INK["rule"], lw=0.7)
        text = _words.share(rate)
        if column == 0:
            pen.quiet(page, left - 4, y, text, ha="right", va="center", fontsize=8.5)
        if last and (column == 0 or x > left):
            pen.quiet(page, x, bottom + 11, text, ha="center", fontsize=8.5)
    page.plot([left, right], [bottom, top], **{**CHANCE, "lw": 0.9})


def _curve(page: Axes, frame: _Frame, roc: Sequence[Bounds], look: dict[str, Any]) -> None:
    floor = _floor(roc)
    points = [(floor, max((tpr for fpr, tpr in roc if fpr < floor), default=frame.low))]
    points += [(fpr, tpr) for fpr, tpr in roc if fpr >= floor]
    xs, ys = [], []
    for (fpr, tpr), before in zip(points, [points[0], *points], strict=False):
        xs += [frame.x(fpr)] * 2
        ys += [frame.y(before[1]), frame.y(tpr)]
    xs, ys = _thinned(xs, ys)
    page.plot(xs, ys, solid_joinstyle="round", **look)
    for fpr in MARKED:
        height = _at(roc, fpr)
        if height is not None:
            page.plot([frame.x(fpr)], [frame.y(height)], "o", ms=3.4, color=look["color"])


def _thinned(xs: list[float], ys: list[float], least: float = 1.2) -> tuple[list[float], ...]:
    """The points of a line that are at least so far from the one before, and both ends."""
    kept = [0]
    for i in range(1, len(xs)):
        far = abs(xs[i] - xs[kept[-1]]) + abs(ys[i] - ys[kept[-1]]) >= least
        if far or i == len(xs) - 1:
            kept.append(i)
    return [xs[i] for i in kept], [ys[i] for i in kept]
