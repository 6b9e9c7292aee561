"""Utility of each release: perplexity on held-out text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.results import words
from audit.results.schema import Measure, ReleaseResult
from reports._content.figure import Figure
from reports._content.table import Table, pieces
from reports._content.worst import MOST_ROWS
from reports._figures import rows
from reports._figures.rows import Kind, Mark, Row

AUDITED = Kind("audited", "o", 0.6)
REFERENCE = Kind("reference", "o", 0.6, fill="none")
_GUIDES = ("none", "public")  # the best that this model can do with the data, and without it
_TITLE = "Perplexity on held-out text"


def figures(releases: Sequence[ReleaseResult], names: Sequence[str]) -> Iterator[Figure]:
    """Draw a row for each release; none where perplexity was not measured."""
    measures = [release.utility.get("perplexity") for release in releases]
    if not any(measures):
        return
    both = list(zip(releases, names, measures, strict=True))
    lines = [_row(release, name, measure) for release, name, measure in both]
    cells = [_cells(name, measure) for _, name, measure in both]
    scale = rows.scale_of(lines, "perplexity")
    label = "perplexity, log scale" if scale.logarithmic else "perplexity"
    rest = (
        " What a service no longer answers, the public model does."
        if any(map(_stops, releases))
        else ""
    )
    guides = [m.value for r, _, m in both if m and r.reference and r.defense in _GUIDES]
    for suffix, piece in pieces(len(lines), MOST_ROWS):
        shown = "; ".join(f"{row[0]} {row[1]}, {row[2]}" for row in cells[piece])
        yield Figure(
            title=_TITLE + suffix,
            caption=f"Lower is better. Dashed: the references.{rest}",
            alternative=f"{_TITLE} by release{suffix}. {shown}.",
            svg=rows.draw(lines[piece], scale, label, f"use-{piece.start}", guides),
            table=Table(_TITLE + suffix, ["Release", "Value [interval]", "Answered"], cells[piece]),
        )


def _row(release: ReleaseResult, name: str, measure: Measure | None) -> Row:
    _, note, _ = _cells(name, measure)
    if measure is None:
        return Row(name, note, release.reference)
    kind = REFERENCE if release.reference else AUDITED
    marks = [Mark(kind, measure.value, measure.ci)]
    return Row(name, note, release.reference, marks, aside=_stops(release) or _overfits(release))


def _stops(release: ReleaseResult) -> str:
    scored = [s for s in release.sessions if s.purpose.split(",")[0] == "utility"]  # of each seed
    if all(s.stopped_at is None for s in scored):
        return ""
    answered = sorted({s.answered for s in scored})
    span = " to ".join(f"{number:,}" for number in dict.fromkeys([answered[0], answered[-1]]))
    return f"{span} of {scored[0].queries:,} tokens answered, then STOP"


def _overfits(release: ReleaseResult) -> str:
    end = release.utility.get("perplexity_at_end")
    if end is None:
        return ""
    return f"at its best step; {words.quantity(end.value, end.unit)} at the end of training"


def _cells(name: str, measure: Measure | None) -> list[str]:
    if measure is None:
        return [name, "not measured", "—"]
    answered = "all" if measure.answered is None else words.integer(measure.answered)
    value = words.measured(measure.value, measure.ci, measure.unit)
    return [name, value, f"{answered} answered"]
