"""What a sweep says on the claims themselves: ε found over ε claimed, and ε spent over queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.results.schema import EpsilonLower, FindingResult, ReleaseResult
from reports import _draw, _words
from reports._epsilon import bounded
from reports._figure import Figure, Table
from reports._summary import at_least
from reports._sweep_axes import Axis, identifier, kind, labels
from reports._sweep_draw import Plot, Point, Series, draw, thinned

MOST_CURVES = 6
BELOW = (
    "Below the line proves no safety; 0: no bound was found. Shown is the largest of a setting's "
    "bounds, each at 95 % by itself: by chance one of many may pass what is true. Over seeds it is "
    "the lower median of theirs. Hollow: of another unit, relation or access than the claim's."
)


def bounds(axis: Axis) -> Iterator[Figure]:
    """The largest bound that was found for each claim; above the claim it would refute it."""
    lines, rows = [], []
    for label, members in axis.lines:
        points = []
        for x, release in members:
            best = max(bounded(release), key=_bound, default=None)
            told = "none above 0" if best is None else at_least(best[1])
            refuted = any(f.verdict == "refuted" for f in release.findings)
            rows.append([label, _words.number(x), told, "yes" if refuted else "no"])
            alike = _testable(release) if best is None else _alike(release, *best)
            points.append(Point(x, 0.0 if best is None else best[1].value, hollow=not alike))
        lines.append(Series(label, points))
    testable = any(_testable(release) for _, release in axis.members)
    title = f"Empirical ε over claimed {axis.title}"
    up = "ε at least, nats, per user"
    plot = Plot(lines, [], axis.name, up, forbidden=testable)
    note = "" if testable else "No bound here speaks about this kind of ε: nothing is forbidden. "
    told = "; ".join(f"{row[0]} claimed {row[1]}: {row[2]}" for row in rows)
    table = Table(title, ["Setting", "ε claimed", "Largest bound", "Refuted"], rows)
    for part, piece in enumerate(thinned(plot)):
        svg = draw(piece, identifier("claims", title, str(part)))
        yield Figure(title, note + BELOW, f"{title}. {told}.", svg, table)


def _bound(pair: tuple[FindingResult, EpsilonLower]) -> float:
    return pair[1].value


def _testable(release: ReleaseResult) -> bool:
    """Whether bounds for the planted user speak about this claim at all."""
    claim = release.guarantee
    return claim.alpha is None and claim.basis == "worst case" and claim.unit == "user"


def _alike(release: ReleaseResult, finding: FindingResult, bound: EpsilonLower) -> bool:
    claim = release.guarantee
    held = bound.relation in (claim.relation, *claim.also) and bound.unit == claim.unit
    return _testable(release) and held and not finding.stronger_than_release


def budgets(settings: Sequence[ReleaseResult]) -> Iterator[Figure]:
    """ε spent over queries: for each setting the session that spent most, over all seeds."""
    spending: dict[tuple[str, str], list[tuple[str, ReleaseResult]]] = {}
    for release, label in zip(settings, labels(settings), strict=True):
        if not release.reference and any(s.spent_curve for s in release.sessions):
            key = release.defense, kind(release)
            spending.setdefault(key, []).append((label, release))
    for (defense, scope), members in spending.items():
        yield from _budget(f"Budget of {defense} over queries, {scope}", members)


def _budget(title: str, members: Sequence[tuple[str, ReleaseResult]]) -> Iterator[Figure]:
    curves, rows = [], []
    for label, release in members:
        spenders = [s for s in release.sessions if s.spent_curve]
        session = max(spenders, key=lambda s: s.spent_curve[-1][1])
        queries, spent = session.spent_curve[-1]
        stop = session.stopped_at
        curves.append(_draw.Curve(label, session.spent_curve, stop))
        rows.append(
            [
                label,
                _words.words(session.purpose),
                _words.count(queries),
                _words.number(spent),
                _words.epsilon(release.guarantee.epsilon),
                "not reached" if stop is None else f"at query {_words.count(stop)}",
            ]
        )
    head = ["Setting", "Session", "Queries", "ε spent, nats", "ε promised, nats", "STOP"]
    told = "; ".join(f"{r[0]}: {r[3]} of {r[4]} nats in {r[2]} queries" for r in rows)
    promise = "each promised the ε that its label names"
    for start in range(0, len(curves), MOST_CURVES):
        piece = curves[start : start + MOST_CURVES]
        unit = members[0][1].guarantee.unit
        yield Figure(
            title=title,
            caption="For each setting the session, of all seeds, that spent most.",
            alternative=f"{title}. {told}.",
            svg=_draw.curves(piece, None, promise, unit, identifier("spent", title, str(start))),
            table=Table(title, head, rows),
        )
