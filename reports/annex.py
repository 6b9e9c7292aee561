"""annex.html, annex.pdf and annex.json: the annex for reviewers, one document in three forms.

Row by row, what published texts ask for (`reports/_annex/*.toml`) stands beside what the run shows,
or "not covered". It draws no legal conclusion.
"""

from __future__ import annotations

from pathlib import Path

from audit.gate import files
from audit.results.schema import Results
from reports import html, pdf
from reports._annex import build
from reports._annex.document import Annex, Answer, to_json
from reports._content import verdicts

FILENAME, PRINT, DATA = "annex.html", "annex.pdf", "annex.json"
_MEANINGS = {
    **verdicts.MEANINGS,
    str(Answer.RECORDED): "The run has it on record. Whether it suffices is for people to decide.",
    str(Answer.NOT_COVERED): "This run shows nothing of it.",
}
_MARK = verdicts.NO_SEARCH  # the shape of what is no finding


def write(results: Results, folder: Path) -> Path:
    """Writes all three files into `folder`; returns the page."""
    annex = build.build(results)
    files.replaced(folder / DATA, to_json(annex))
    (folder / PRINT).write_bytes(printed(annex))
    return files.replaced(folder / FILENAME, page(annex))


def also(results: Results) -> tuple[str, ...]:
    """Names the files that `write` writes beside the page."""
    return PRINT, DATA


def page(annex: Annex) -> str:
    """Returns annex.html; the same annex gives the same text."""
    return html.laid_out(
        "annex.html.j2",
        annex=annex.model_dump(mode="json"),
        marks=_with_marks(verdicts.on_screen()),
        alarms=verdicts.ALARMS,
        meanings=list(_MEANINGS.items()),
    )


def printed(annex: Annex) -> bytes:
    """Returns annex.pdf; the same annex gives the same bytes."""
    data = {
        "page": {"title": annex.title, "subtitle": annex.subtitle},
        "annex": annex.model_dump(mode="json"),
        "marks": _with_marks(verdicts.on_paper()),
        "alarms": verdicts.ALARMS,
        "meanings": list(_MEANINGS.items()),
    }
    return pdf.laid_out("annex.typ", data)


def _with_marks(marks: dict[str, str]) -> dict[str, str]:
    """Gives the words that only an annex has the shape of what is no finding."""
    return {**marks, **{word: marks[_MARK] for word in _MEANINGS if word not in marks}}
