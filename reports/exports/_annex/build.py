"""Fills every row of every source from the results of one run."""

from __future__ import annotations

from collections.abc import Callable

from audit.core.terms import Leaked
from audit.results import words
from audit.results.schema import Results
from reports._content import verdicts, wording
from reports.exports._annex import attackers, guarantees, measures, records, rows
from reports.exports._annex.document import Annex, Release, Row, Source
from reports.exports._annex.rows import Asked, Text
from reports.exports._annex.view import MOST, Evidence, One, View

STATEMENTS = (
    "This annex sets what a run of audit measured beside what published texts ask for. It draws no "
    "legal conclusion and certifies nothing: what the figures mean in law is for people to decide.",
    "What could not be shown is inconclusive or not covered; neither is good news. No leak found "
    "means that these attacks, with so many trials, told nothing apart from chance.",
    "Requirements are in the words of audit. Unchecked wording was not compared with the source "
    "itself; the source's own text decides.",
)
EVIDENCE: dict[str, Callable[[View, Asked], Evidence]] = {
    "measures": measures.measures,
    "everybody": measures.everybody,
    "synthetic": measures.synthetic,
    "every_attack": attackers.every_attack,
    "threats": attackers.threats,
    "claims": guarantees.claims,
    "delta": guarantees.delta,
    "unit": guarantees.unit,
    "comparing": guarantees.comparing,
    "conversion": guarantees.conversion,
    "conditions": guarantees.conditions,
    "implementation": guarantees.implementation,
    "nothing": records.nothing,
    "release": records.release,
    "training": records.training,
    "tests": records.tests,
    "documents": records.documents,
    "composition": records.composition,
    "queries": records.queries,
    "randomness": records.randomness,
    "unstructured": records.unstructured,
}


def build(results: Results) -> Annex:
    """Build the annex; the same results give the same one."""
    view = View.of(results)
    subjects = dict.fromkeys(one.release.defense for one in view.audited)
    named = wording.clip(", ".join(subjects), 80) or "no release"
    return Annex(
        status=view.results.status,
        title=f"Annex for reviewers: {named}",
        subtitle=f"Annex to the privacy audit · {wording.clip(view.results.corpus.name, 60)}",
        statements=[*STATEMENTS, *_rest(view)],
        plan_hash=str(view.results.plan.get("hash", "unknown")),
        releases=[_release(one) for one in view.shown],
        sources=[_source(view, text) for text in rows.sources()],
    )


def _rest(view: View) -> list[str]:
    left = len(view.audited) - len(view.shown)
    if not left:
        return []
    whole = words.integer(len(view.audited))
    return [
        f"{MOST} audited releases are shown, refuted claims and leaks first. Answers are over all "
        f"{whole}; the other {words.integer(left)} stand in results.json."
    ]


def _release(one: One) -> Release:
    guarantee = one.release.guarantee
    names = ("epsilon", "delta", "alpha", "unit", "relation", "basis")
    return Release(
        name=one.name,
        role=wording.clip(one.release.role, 60),
        **{name: getattr(guarantee, name) for name in names},
        claimed=guarantees.claimed(guarantee),
        insiders=str(Leaked.INSIDERS) if _insiders(one) else "",
        leaked=one.release.leaked,
        claim=one.release.claim,
        on_claim=verdicts.claim(one.release),
    )


def _insiders(one: One) -> bool:
    found = one.release.findings
    return any(f.leaked == Leaked.INSIDERS for f in found)


def _source(view: View, text: Text) -> Source:
    names = ("key", "title", "publisher", "edition", "url", "reached")
    return Source(
        **{name: getattr(text, name) for name in names},
        rows=[_row(view, asked) for asked in text.rows],
    )


def _row(view: View, asked: Asked) -> Row:
    shown = EVIDENCE[asked.evidence](view, asked)
    names = ("key", "section", "title", "requirement", "wording", "compared")
    return Row(
        **{name: getattr(asked, name) for name in names},
        answer=shown.answer,
        note=" ".join(filter(None, (shown.note, asked.note))),
        facts=shown.facts,
        figures=shown.figures,
        places=shown.places,
    )
