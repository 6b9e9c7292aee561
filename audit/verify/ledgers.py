"""Compares sessions with what was charged for them, with the promise, and with the utility."""

from __future__ import annotations

import math
from collections.abc import Iterator

from audit.core.guarantee import Guarantee
from audit.measure.evidence_file import EvidenceFile
from audit.measure.spending import of_ledger
from audit.verify.documents import Stated

_UTILITY = ("utility", "utility at the end")  # sessions that leave sums over blocks of text


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


def of_promises(run: Stated, evidence: EvidenceFile) -> Iterator[str]:
    """Says which sessions spent more than is promised: a ledger stops before that."""
    for release in evidence.releases:
        for session in release.sessions:
            rows = run.ledger.get(f"{release.ledger}/{session['purpose']}", ())
            most = max(of_ledger(rows, None)["epsilon_spent"], default=0.0)
            if most > _limit(release.guarantee):
                yield (
                    f"results.json: session {session['purpose']} of {release.ledger} spent "
                    f"ε = {most:.6g}, more than the ε = {release.guarantee.epsilon:g} that is "
                    "promised"
                )


def _limit(guarantee: Guarantee) -> float:
    return math.inf if guarantee.epsilon is None else guarantee.epsilon


def of_utility(evidence: EvidenceFile) -> Iterator[str]:
    """Says of which releases the utility was asked for, and is not there."""
    for release in evidence.releases:
        asked = [s for s in release.sessions if s["purpose"] in _UTILITY and s["queries"]]
        measured = [one for one in release.utility if one["blocks"]]
        if len(measured) < len(asked):
            yield f"evidence.json: {release.ledger} was asked for its utility, and there is none"
