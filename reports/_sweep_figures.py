"""The curves of a sweep: use and leaks over ε and over parameters, and leaks over use.

Guarantees of different kinds never share an axis of ε: each kind has drawings of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from audit.results.numbers import Bounds
from audit.results.schema import FindingResult, ReleaseResult
from reports import _sweep_claims, _words
from reports._figure import Figure, Table
from reports._summary import measurement, quoted
from reports._sweep_axes import Axis, epsilon_axes, identifier, labels, parameter_axes
from reports._sweep_draw import Level, Plot, Point, Series, thinned
from reports._sweep_draw import draw as drawn

UTILITY = (
    ("perplexity", "Perplexity on held-out text"),
    ("bleu4", "BLEU-4 of completions"),
    ("top1_accuracy", "Top-1 accuracy on held-out text"),
)
OVER = "Lines are intervals; one cut by the frame goes on, as the table says."
HOLLOW = "Hollow: read with more than the release gives. "

Measured = tuple[float, Bounds | None, str]  # value, interval, unit
Reader = Callable[[ReleaseResult], Measured | None]


def draw(settings: Sequence[ReleaseResult]) -> list[Figure]:
    """All figures this sweep has data for."""
    of_epsilon = epsilon_axes(settings)
    axes = [*of_epsilon, *parameter_axes(settings)]
    found = _quoted(settings)
    readers = [(title, _use(metric), None) for metric, title in UTILITY]
    readers += [(measurement(f), _leak(f), f) for f in found]  # type: ignore[misc]
    return [
        *(f for title, read, like in readers for axis in axes
          for f in _over(axis, title, read, settings, like)),
        *(f for like in found for f in _trade(like, settings)),
        *(f for axis in of_epsilon for f in _sweep_claims.bounds(axis)),
        *_sweep_claims.budgets(settings),
    ]  # fmt: skip


def _use(metric: str) -> Reader:
    def read(release: ReleaseResult) -> Measured | None:
        measure = release.utility.get(metric)
        if measure is None or not math.isfinite(measure.value):
            return None
        return measure.value, measure.ci, measure.unit

    return read


def _leak(like: FindingResult) -> Reader:
    def read(release: ReleaseResult) -> Measured | None:
        finding = _same(release, like)
        if finding is None or finding.value is None:
            return None
        return finding.value, finding.ci, finding.unit

    return read


def _same(release: ReleaseResult, like: FindingResult | None) -> FindingResult | None:
    if like is None:
        return None
    wanted = (like.attack, like.metric, like.unit)
    return next((f for f in release.findings if (f.attack, f.metric, f.unit) == wanted), None)


def _quoted(settings: Sequence[ReleaseResult]) -> list[FindingResult]:
    """One measure an attack: the one that most settings are quoted by."""
    quotes: dict[str, list[FindingResult]] = {}
    for release in settings:
        for place in () if release.reference else quoted(release):
            finding = release.findings[place]
            if finding.value is not None:
                quotes.setdefault(finding.attack, []).append(finding)
    return [
        max(found, key=lambda f: sum((f.metric, f.unit) == (g.metric, g.unit) for g in found))
        for found in quotes.values()
    ]


def _over(
    axis: Axis,
    title: str,
    read: Reader,
    settings: Sequence[ReleaseResult],
    like: FindingResult | None,
) -> Iterator[Figure]:
    """One measure over an axis, a line for each setting of everything else."""
    lines, rows, units = [], [], []
    for label, members in axis.lines:
        points = []
        for x, release in members:
            measured, finding = read(release), _same(release, like)
            rows.append([label, _words.number(x), _told(measured), _seeds(release)])
            if measured is not None:
                hollow = finding is not None and finding.stronger_than_release
                points.append(Point(x, measured[0], measured[1], hollow=hollow))
                units.append(measured[2])
        lines.append(Series(label, points))
    if not units:
        return
    levels, beside = _levels(axis, read, settings)
    plot = Plot(lines, levels, axis.name, units[0])
    full = f"{title} over {axis.title}"
    told = "; ".join(f"{row[0]} at {row[1]}: {row[2]}" for row in [*rows, *beside])
    table = Table(full, ["Setting", axis.name, f"{units[0]} [interval]", "Over"], [*rows, *beside])
    note = HOLLOW if any(point.hollow for point in plot.points) else ""
    for part, piece in enumerate(thinned(plot)):
        svg = drawn(piece, identifier("over", full, str(part)))
        yield Figure(full, note + OVER, f"{full}. {told}.", svg, table)


def _levels(
    axis: Axis, read: Reader, settings: Sequence[ReleaseResult]
) -> tuple[list[Level], list[list[str]]]:
    """What has no place on the axis: references, and defenses that promise no finite ε."""
    inside = {release.defense for _, release in axis.members}
    levels, rows = [], []
    seen = set(inside)
    for release in settings:
        if release.defense in seen or not _beside(release, inside):
            continue
        seen.add(release.defense)
        measured = read(release)
        rows.append([release.defense, "—", _told(measured), _seeds(release)])
        if measured is not None:
            levels.append(Level(f"{release.defense}: {_told(measured)}", measured[0]))
    return levels[:4], rows


def _beside(release: ReleaseResult, inside: set[str]) -> bool:
    """Whether a release without a place on an axis is worth a level beside it."""
    if release.reference:
        bare = release.defense.removesuffix("_unprotected")
        return bare == release.defense or bare in inside
    epsilon = release.guarantee.epsilon
    return epsilon is None or math.isinf(epsilon)


def _told(measured: Measured | None) -> str:
    return "not measured" if measured is None else _words.measured(*measured)


def _seeds(release: ReleaseResult) -> str:
    measure = release.utility.get("perplexity")
    if measure is None:
        return "—"
    return f"{measure.n} seed{'' if measure.n == 1 else 's'}"


def _trade(like: FindingResult, settings: Sequence[ReleaseResult]) -> Iterator[Figure]:
    """A leak over perplexity: nothing is ranked by ε, so every kind of guarantee may be here."""
    use, leak = _use("perplexity"), _leak(like)
    shown = [r for r in settings if not r.reference or r.defense in ("none", "public")]
    lines: dict[str, list[Point]] = {}
    rows = []
    for release, label in zip(shown, labels(shown), strict=True):
        x, y, finding = use(release), leak(release), _same(release, like)
        rows.append([label, _told(x), _told(y), _words.claim(release.guarantee)])
        if x is not None and y is not None:
            hollow = finding is not None and finding.stronger_than_release
            point = Point(x[0], y[0], y[1], x[1], hollow)
            lines.setdefault(_kind_of(release), []).append(point)
    if not lines:
        return
    series = [Series(label, points, joined=False) for label, points in lines.items()]
    plot = Plot(series, [], "perplexity", like.unit)
    title = f"{measurement(like)} over perplexity"
    note = HOLLOW if any(point.hollow for point in plot.points) else ""
    note = f"Further left is of more use, further from chance leaks more. {note}{OVER}"
    told = "; ".join(f"{row[0]}: {row[2]} at perplexity {row[1]}" for row in rows)
    table = Table(title, ["Setting", "Perplexity", like.unit, "Claim"], rows)
    for part, piece in enumerate(thinned(plot)):
        svg = drawn(piece, identifier("trade", title, str(part)))
        yield Figure(title, note, f"{title}. {told}.", svg, table)


def _kind_of(release: ReleaseResult) -> str:
    claim = release.guarantee
    if not claim.epsilon or math.isinf(claim.epsilon):
        return release.defense
    return f"{release.defense}, ε {_words.per_unit(claim.unit, claim.relation)}"
