"""Figures of the claims of a sweep: ε shown over ε claimed, and ε spent over queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.core.terms import OnClaim, Unit
from audit.results import words
from audit.results.schema import EpsilonLower, FindingResult, ReleaseResult
from reports._content import wording
from reports._content.claims import largest
from reports._content.figure import Figure
from reports._content.releases import setting_labels
from reports._content.table import Table
from reports._figures import budget, lines
from reports._figures.budget import MOST_SESSIONS, Promise
from reports._figures.lines import Plot, Point, Series
from reports._figures.sweep_axes import Axis, identifier, kind

BELOW = (
    "A point below the line proves no safety; at 0 no bound was shown. Each point is the largest "
    "bound of its setting, and each bound holds at 95 % by itself: of many, some may exceed the "
    "true ε by chance. Over seeds it is the lower median. Hollow: the bound has another unit, "
    "relation or access than the claim."
)


def bounds(axis: Axis) -> Iterator[Figure]:
    """Return the largest lower bound on ε for each claim; above the claim it would refute it."""
    series, rows = [], []
    for label, members in axis.lines:
        points = []
        for x, release in members:
            best = largest(release)
            bound = "none above 0" if best is None else wording.bound(best[1])
            refuted = any(f.claim == OnClaim.REFUTED for f in release.findings)
            rows.append([label, words.number(x), bound, "yes" if refuted else "no"])
            alike = _testable(release) if best is None else _alike(release, *best)
            points.append(Point(x, 0.0 if best is None else best[1].value, hollow=not alike))
        series.append(Series(label, points))
    testable = any(_testable(release) for _, release in axis.members)
    title = f"Empirical ε over claimed {axis.title}"
    plot = Plot(series, {}, axis.name, "ε at least, nats, per user", forbidden=testable)
    note = "" if testable else "No bound here tests this kind of ε, so no region is forbidden. "
    sentence = "; ".join(f"{row[0]} claimed {row[1]}: {row[2]}" for row in rows)
    table = Table(title, ["Setting", "ε claimed", "Largest bound", "Refuted"], rows)
    yield from lines.figures(plot, title, note + BELOW, sentence, table)


def _testable(release: ReleaseResult) -> bool:
    """Return whether bounds for the planted user can test this claim at all."""
    claim = release.guarantee
    return claim.alpha is None and claim.basis == "worst case" and claim.unit == Unit.USER


def _alike(release: ReleaseResult, finding: FindingResult, bound: EpsilonLower) -> bool:
    claim = release.guarantee
    held = bound.relation in (claim.relation, *claim.also) and bound.unit == claim.unit
    return _testable(release) and held and not finding.stronger_than_release


def budgets(settings: Sequence[ReleaseResult]) -> Iterator[Figure]:
    """Plot ε spent over queries: for each setting the session that spent most, over all seeds."""
    spending: dict[tuple[str, str], list[tuple[str, ReleaseResult]]] = {}
    for release, label in zip(settings, setting_labels(settings), strict=True):
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
        curves.append((label, session))
        promised = words.epsilon(release.guarantee.epsilon)
        rows.append([label, budget.spelled(session), *budget.spent(session), promised,
                     budget.stop(session)])  # fmt: skip
    head = ["Setting", "Session", "Queries", "ε spent, nats", "ε promised, nats", "STOP"]
    sentence = "; ".join(f"{r[0]}: {r[3]} of {r[4]} nats in {r[2]} queries" for r in rows)
    promise = Promise("each promised the ε in its label", members[0][1].guarantee.unit)
    for start in range(0, len(curves), MOST_SESSIONS):
        piece = curves[start : start + MOST_SESSIONS]
        yield Figure(
            title=title,
            caption="For each setting the session that spent most, of all seeds.",
            alternative=f"{title}. {sentence}.",
            svg=budget.draw(piece, promise, identifier("spent", title, str(start))),
            table=Table(title, head, rows),
        )
