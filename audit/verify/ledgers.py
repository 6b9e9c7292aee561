"""Compares the ledger with the number of queries that each session answered."""

from __future__ import annotations

from collections.abc import Iterator

from audit.measure.evidence_file import EvidenceFile
from audit.verify.documents import Stated


def of_ledgers(run: Stated, evidence: EvidenceFile) -> Iterator[str]:
    """Says which sessions under a budget answered more queries than were charged.

    A killed process may have been charged for more than was answered, never for less.
    """
    for release in evidence.releases:
        for session in release.sessions:
            name, answered = f"{release.ledger}/{session['purpose']}", session["answered"]
            rows = run.ledger.get(name, ())
            charged = len({row["query"] for row in rows if not row["stopped"]})
            if session["budget"] is not None and charged < answered:
                yield f"ledger.jsonl: {name} was charged for {charged} of {answered} answers"
