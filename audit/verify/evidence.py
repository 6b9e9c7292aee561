"""Compares pieces of evidence that must agree, whatever results follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from audit.measure.evidence_file import EvidenceFile, OfAttack, OfRelease
from audit.results.labels import ELSEWHERE
from audit.results.numbers import agree
from audit.verify.documents import Stated

_STATED = ("noise_multiplier", "sampling_probability", "steps", "bands", "participations")
_NAMES = ("evidence", "metric", "score", "target", "kind")  # what tells pieces of an attack apart


def of_pieces(evidence: EvidenceFile) -> Iterator[str]:
    """List what an attack saw of one release and not of another with the same access.

    A session under a budget may leave some out.
    """
    for release in evidence.releases:
        for one in release.attacks:
            whole = {
                piece
                for other in evidence.releases
                for same in other.attacks
                if same.attack == one.attack and same.access == one.access
                for piece in _pieces(same)
            }
            for piece in sorted(whole - _pieces(one)) if _is_free(release, one) else ():
                what = " ".join(piece)
                yield f"evidence.json: {release.ledger} lacks what {one.attack} saw: {what}"


def _pieces(one: OfAttack) -> set[tuple[str, ...]]:
    return {tuple(str(row[name]) for name in _NAMES if row.get(name)) for row in one.seen}


def _is_free(release: OfRelease, one: OfAttack) -> bool:
    return all(s["budget"] is None for s in release.sessions if s["purpose"] == one.attack)


def of_lost(run: Stated, evidence: EvidenceFile) -> Iterator[str]:
    """List the kinds that count as trained on, although nobody stated what was trained on."""
    plan = run.document["plan"]
    if not plan.get("finished") or plan.get("trained_on"):
        return
    for release in evidence.releases:
        for one in release.attacks if release.defense == ELSEWHERE else ():
            for kind in sorted(set(one.kinds) - set(one.lost)):
                yield (
                    f"evidence.json: {release.ledger}: {one.attack} takes {kind} for trained on, "
                    "and no training file was stated"
                )


def of_noise(evidence: EvidenceFile) -> Iterator[str]:
    """List what a mechanism was asked or stated to be, and is not what its ε is accounted for."""
    for release in evidence.releases:
        terms = (release.guarantee.accounting or {}).get("terms", ())
        for name in _STATED if release.defense == ELSEWHERE else _STATED[:1]:
            asked = release.parameters.get(name)
            accounted = [value for term in terms if (value := _of_term(term, name)) is not None]
            if asked is not None and accounted and not any(agree(asked, x) for x in accounted):
                stands = ", ".join(f"{one:g}" for one in accounted)
                yield (
                    f"{release.ledger}: {name} is {asked:g}, and its ε is accounted for {stands}"
                )


def _of_term(term: Mapping[str, Any], name: str) -> float | None:
    """Return what a term holds of a mechanism; None where it is of another kind."""
    if name == "bands":
        return float(len(term["column"])) if "column" in term else None
    where = {"steps": "steps" if "steps" in term else "count", "participations": "count"}
    value = term.get(where.get(name, name))
    return None if value is None else float(value)
