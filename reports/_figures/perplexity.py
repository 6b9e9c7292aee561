"""Utility of each release: perplexity on held-out text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.results import words
from audit.results.schema import Measure, ReleaseResult
from reports._content import wording
from reports._content.figure import Figure
from reports._content.releases import MOST_ROWS, NamedRelease
from reports._content.table import Table, pieces
from reports._figures import rows
from reports._figures.rows import Kind, Mark, Row

AUDITED = Kind("audited", "o", 0.6)
REFERENCE = Kind("reference", "o", 0.6, fill="none")
_GUIDES = ("none", "public")  # the best that this model can do with the data, and without it
_TITLE = "Perplexity on held-out text"


def figures(releases: Sequence[NamedRelease]) -> Iterator[Figure]:
    """Draw a row for each release; none where perplexity was not measured."""
    measures = [one.release.utility.get("perplexity") for one in releases]
    if not any(measures):
        return
    pairs = list(zip([one.release for one in releases], measures, strict=True))
    cells = [_cells(one.name, m) for one, m in zip(releases, measures, strict=True)]
    lines = [_row(release, m, cell) for (release, m), cell in zip(pairs, cells, strict=True)]
    scale = rows.scale_of(lines, "perplexity")
    label = "perplexity, log scale" if scale.logarithmic else "perplexity"
    stopped = any(_stops(release) for release, _ in pairs)
    rest = " What a service no longer answers, the public model does." if stopped else ""
    guides = [m.value for r, m in pairs if m and r.reference and r.defense in _GUIDES]
    for suffix, piece in pieces(len(lines), MOST_ROWS):
        shown = "; ".join(f"{row[0]} {row[1]}, {row[2]}" for row in cells[piece])
        yield Figure(
            title=_TITLE + suffix,
            caption=f"Lower is better. Dashed: the references.{rest}",
            alternative=f"{_TITLE} by release{suffix}. {shown}.",
            svg=rows.draw(lines[piece], scale, label, f"use-{piece.start}", guides),
            table=Table(_TITLE + suffix, ["Release", "Value [interval]", "Answered"], cells[piece]),
        )


def _row(release: ReleaseResult, measure: Measure | None, cells: Sequence[str]) -> Row:
    name, note, _ = cells
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
    return [name, wording.value(measure), f"{answered} answered"]
