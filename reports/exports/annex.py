"""annex.html, annex.pdf and annex.json: the annex for reviewers, one document in three forms.

Row by row, what published texts ask for (`_annex/*.toml`) stands beside what the run shows,
or "not covered". It draws no legal conclusion.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports import Format, Report, html, pdf
from reports._content import verdicts
from reports.exports._annex import build, document
from reports.exports._annex.document import Answer

FILENAME, PRINT, DATA = "annex.html", "annex.pdf", "annex.json"
_MEANINGS = {
    **verdicts.MEANINGS,
    str(Answer.RECORDED): "The run has it on record. Whether it suffices is for people to decide.",
    str(Answer.NOT_COVERED): "This run shows nothing of it.",
}
_MARK = verdicts.NO_SEARCH  # the shape of what is no finding


@dataclass(frozen=True)
class Annex(Format):
    """Documents for reviewers beside the report: a page, its print, and its data."""

    def files(self, report: Report) -> dict[str, bytes]:
        annex = build.build(report.results)
        data = document.to_json(annex).encode("utf-8")
        return {FILENAME: page(annex), PRINT: printed(annex), DATA: data}


def page(annex: document.Annex) -> bytes:
    """Lay out annex.html."""
    return html.laid_out(
        "annex.html.j2",
        annex=annex.model_dump(mode="json"),
        marks=_with_marks(verdicts.on_screen()),
        alarms=verdicts.ALARMS,
        meanings=list(_MEANINGS.items()),
    )


def printed(annex: document.Annex) -> bytes:
    """Lay out annex.pdf."""
    data = {
        "page": {"title": annex.title, "subtitle": annex.subtitle},
        "annex": annex.model_dump(mode="json"),
        "marks": _with_marks(verdicts.on_paper()),
        "alarms": verdicts.ALARMS,
        "meanings": list(_MEANINGS.items()),
    }
    return pdf.laid_out("annex.typ", data)


def _with_marks(marks: dict[str, str]) -> dict[str, str]:
    """Add to the marks the one of "not a finding" for words that only an annex has."""
    return {**marks, **{word: marks[_MARK] for word in _MEANINGS if word not in marks}}
