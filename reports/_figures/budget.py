"""ε spent over queries in nats, one curve a session, beside the promise."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from audit.results import words
from audit.results.schema import GuaranteeResult, SessionResult
from reports._content import detail, wording
from reports._content.figure import Figure
from reports._content.releases import NamedRelease
from reports._content.table import Table
from reports._figures import canvas, svg
from reports._figures.canvas import PROMISE

MOST_SESSIONS = 6
_HEAD = ["Session", "Queries", "ε spent, nats", "Promise", "STOP"]


@dataclass(frozen=True)
class Promise:
    """Promise in words; ε in nats where it is finite."""

    text: str
    unit: str
    epsilon: float | None = None


def figures(releases: Sequence[NamedRelease]) -> Iterator[Figure]:
    """Draw a figure for each release that keeps a ledger."""
    for index, one in enumerate(releases):
        sessions = [s for s in one.release.sessions if s.spent_curve]
        if not sessions:
            continue
        promise = _promise(one.release.guarantee)
        rows = [[spelled(s), *spent(s), promise.text, stop(s)] for s in sessions]
        title = f"Budget spent by {one.name}"
        left_out = len(sessions) - MOST_SESSIONS
        extra = f" {left_out} more sessions stand in the table." if left_out > 0 else ""
        sentence = detail.spent(one.release)
        lines = [(spelled(s), s) for s in sessions[:MOST_SESSIONS]]
        yield Figure(
            title=title,
            caption=sentence + extra,
            alternative=f"{title} over queries, in nats; {promise.text}. {sentence}",
            svg=draw(lines, promise, f"spent-{index}"),
            table=Table(title, _HEAD, rows),
        )


def _promise(guarantee: GuaranteeResult) -> Promise:
    text, epsilon = words.epsilon(guarantee.epsilon), wording.finite(guarantee)
    if epsilon is not None:
        text = f"ε = {text} nats {wording.per_unit(guarantee.unit, guarantee.relation)}"
    return Promise(f"promised: {text}", guarantee.unit, epsilon)


def spelled(session: SessionResult) -> str:
    """Name a session by its purpose."""
    return wording.spelled(session.purpose)


def spent(session: SessionResult) -> list[str]:
    """Return queries, and ε spent in nats, at the end of a session."""
    queries, epsilon = session.spent_curve[-1]
    return [words.integer(queries), words.number(epsilon)]


def stop(session: SessionResult) -> str:
    """Describe whether and when a session ended early, and whose ε the next answer would use up."""
    if session.stopped_at is None:
        return "not reached"
    where = f"at query {words.integer(session.stopped_at)}"
    if session.stop_part is None or session.stop_charge is None:
        return where
    return f"{where}, for {words.number(session.stop_charge)} nats of part {session.stop_part}"


def draw(lines: Sequence[tuple[str, SessionResult]], promise: Promise, name: str) -> str:
    """Return the SVG of the sessions under their labels."""
    paint = functools.partial(_paint, lines=lines, promise=promise)
    return canvas.drawing(name, 200 + 15 * (len(lines) + 1), paint)


def _paint(page: Canvas, lines: Sequence[tuple[str, SessionResult]], promise: Promise) -> None:
    axes = page.subplots()
    points = [point for _, session in lines for point in session.spent_curve]
    most = max([promise.epsilon or 0.0, *(epsilon for _, epsilon in points)]) or 1.0
    canvas.across(axes, canvas.linear(0, max(1, *(x for x, _ in points))), "queries")
    label = f"ε spent in nats, by the {wording.clip(promise.unit, 20)} that spent most"
    canvas.up(axes, canvas.linear(0, most * 1.12), label)
    entries: list[tuple[Artist, str]] = [(Line2D([], [], ls=""), wording.clip(promise.text, 60))]
    if promise.epsilon is not None:
        entries = [(axes.axhline(promise.epsilon, **PROMISE), entries[0][1])]
    for text, session in lines:
        (line,) = axes.plot(*zip(*session.spent_curve, strict=True), marker="")
        axes.plot(*session.spent_curve[-1], "o", color=line.get_color())
        text = wording.clip(text, 40)
        if session.stopped_at is not None:
            text += f", STOP {stop(session)} (×)"
            before = [epsilon for x, epsilon in session.spent_curve if x <= session.stopped_at]
            axes.plot(session.stopped_at, max(before, default=0.0), "x", ms=8, mew=2,
                      color=svg.INK)  # fmt: skip
        entries.append((line, text))
    canvas.legend(page, entries)
