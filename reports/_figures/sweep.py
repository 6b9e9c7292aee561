"""All figures of a sweep: use and leaks over ε and over parameters, and leaks over use.

Guarantees of different kinds never share an axis of ε: each kind has drawings of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from audit.results import quoting, words
from audit.results.schema import FindingResult, Measure, ReleaseResult
from reports._content import wording
from reports._content.figure import Figure
from reports._content.releases import setting_labels
from reports._content.summary import quoted
from reports._content.table import Table
from reports._figures import lines, sweep_claims
from reports._figures.lines import Plot, Point, Series
from reports._figures.sweep_axes import Axis, epsilon_axes, parameter_axes

UTILITY = (
    ("perplexity", "Perplexity on held-out text"),
    ("bleu4", "BLEU-4 of completions"),
    ("top1_accuracy", "Top-1 accuracy on held-out text"),
)
OVER = "Lines are intervals; the table has the ends of those that the frame cuts."
HOLLOW = "Hollow: read with more than the release gives. "

Measured = Measure | FindingResult
Reader = Callable[[ReleaseResult], Measured | None]


def figures(settings: Sequence[ReleaseResult]) -> list[Figure]:
    """Draw every figure that this sweep has data for."""
    of_epsilon = list(epsilon_axes(settings))
    axes = [*of_epsilon, *parameter_axes(settings)]
    leaks = _quoted(settings)
    measures = [(title, _use(metric)) for metric, title in UTILITY]
    measures += [(wording.measurement(f), _leak(f)) for f in leaks]
    return [
        *(
            f
            for title, read in measures
            for axis in axes
            for f in _over(axis, title, read, settings)
        ),
        *(f for like in leaks for f in _trade(like, settings)),
        *(f for axis in of_epsilon for f in sweep_claims.bounds(axis)),
        *sweep_claims.budgets(settings),
    ]


def _use(metric: str) -> Reader:
    def read(release: ReleaseResult) -> Measure | None:
        measure = release.utility.get(metric)
        return measure if measure is not None and math.isfinite(measure.value) else None

    return read


def _leak(like: FindingResult) -> Reader:
    def read(release: ReleaseResult) -> FindingResult | None:
        return next((f for f in quoting.alike(like, release) if f.value is not None), None)

    return read


def _quoted(settings: Sequence[ReleaseResult]) -> list[FindingResult]:
    """Choose one measure for each attack: the one that most settings are quoted by."""
    quotes: dict[str, list[FindingResult]] = {}
    for release in settings:
        for finding in () if release.reference else quoted(release):
            if finding.value is not None:
                quotes.setdefault(finding.attack, []).append(finding)
    return [
        max(alike, key=lambda f: sum((f.metric, f.unit) == (g.metric, g.unit) for g in alike))
        for alike in quotes.values()
    ]


def _over(
    axis: Axis, title: str, read: Reader, settings: Sequence[ReleaseResult]
) -> Iterator[Figure]:
    """Plot one measure over an axis, a line for each setting of everything else."""
    series, rows, units = [], [], []
    for label, members in axis.lines:
        points = []
        for x, release in members:
            measured = read(release)
            rows.append([label, words.number(x), wording.value(measured), _seeds(release)])
            if measured is not None and measured.value is not None:
                points.append(Point(x, measured.value, measured.ci, hollow=_stronger(measured)))
                units.append(measured.unit)
        series.append(Series(label, points))
    if not units:
        return
    levels, beside = _levels(axis, read, settings)
    rows += beside
    full = f"{title} over {axis.title}"
    sentence = "; ".join(f"{row[0]} at {row[1]}: {row[2]}" for row in rows)
    table = Table(full, ["Setting", axis.name, f"{units[0]} [interval]", "Over"], rows)
    plot = Plot(series, levels, axis.name, units[0])
    note = HOLLOW if plot.hollow else ""
    yield from lines.figures(plot, full, note + OVER, sentence, table)


def _stronger(measured: Measured) -> bool:
    return isinstance(measured, FindingResult) and measured.stronger_than_release


def _levels(
    axis: Axis, read: Reader, settings: Sequence[ReleaseResult]
) -> tuple[dict[str, float], list[list[str]]]:
    """Find what has no place on the axis: references, and defenses that promise no finite ε."""
    inside = {release.defense for _, release in axis.members}
    levels: dict[str, float] = {}
    rows, seen = [], set(inside)
    for release in settings:
        if release.defense in seen or not _beside(release, inside):
            continue
        seen.add(release.defense)
        measured = read(release)
        rows.append([release.defense, "—", wording.value(measured), _seeds(release)])
        if measured is not None and measured.value is not None and len(levels) < 4:
            levels[f"{release.defense}: {wording.value(measured)}"] = measured.value
    return levels, rows


def _beside(release: ReleaseResult, inside: set[str]) -> bool:
    """Return whether a release without a place on an axis is worth a level beside it."""
    if release.reference:
        bare = release.defense.removesuffix("_unprotected")
        return bare == release.defense or bare in inside
    return wording.finite(release.guarantee) is None


def _seeds(release: ReleaseResult) -> str:
    measure = release.utility.get("perplexity")
    return "—" if measure is None else words.count(measure.n, "seed")


def _trade(like: FindingResult, settings: Sequence[ReleaseResult]) -> Iterator[Figure]:
    """Plot a leak over perplexity; nothing is ranked by ε, so every kind of guarantee is here."""
    use, leak = _use("perplexity"), _leak(like)
    shown = [r for r in settings if not r.reference or r.defense in ("none", "public")]
    groups: dict[str, list[Point]] = {}
    rows = []
    for release, label in zip(shown, setting_labels(shown), strict=True):
        x, y = use(release), leak(release)
        rows.append([label, wording.value(x), wording.value(y), wording.claim(release.guarantee)])
        if x is not None and y is not None and x.value is not None and y.value is not None:
            point = Point(x.value, y.value, y.ci, x.ci, _stronger(y))
            groups.setdefault(_kind_of(release), []).append(point)
    if not groups:
        return
    series = [Series(label, points, joined=False) for label, points in groups.items()]
    title = f"{wording.measurement(like)} over perplexity"
    sentence = "; ".join(f"{row[0]}: {row[2]} at perplexity {row[1]}" for row in rows)
    plot = Plot(series, {}, "perplexity", like.unit)
    note = f"{HOLLOW if plot.hollow else ''}{OVER}"
    note = f"Further left is of more use, further from chance leaks more. {note}"
    table = Table(title, ["Setting", "Perplexity", like.unit, "Claim"], rows)
    yield from lines.figures(plot, title, note, sentence, table)


def _kind_of(release: ReleaseResult) -> str:
    claim = release.guarantee
    if not wording.finite(claim):
        return release.defense
    return f"{release.defense}, ε {wording.per_unit(claim.unit, claim.relation)}"
