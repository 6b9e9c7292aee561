"""Compares a run with the sessions that it was taken from, while stages/ is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.core import stages
from audit.core.digest import digest_of_json
from audit.core.files import read_json
from audit.measure.evidence_file import EvidenceFile, OfRelease
from audit.results.schema import ReleaseResult, SessionResult
from audit.results.words import count
from audit.verify.documents import Stated


def of_stages(run: Stated, evidence: EvidenceFile) -> Iterator[str]:
    """List what a run has of a release that no session of this release in stages/ has stored."""
    if not (run.folder / "stages").is_dir():
        return
    paths = sorted(run.folder.glob("stages/session-*.json"))
    held = {_digest(*fact) for path in paths for fact in _stored(path)}
    for release, result in zip(evidence.releases, run.results.releases, strict=False):
        mine = (run.results.plan.get("seed"), release.ledger)
        for what, fact in (*_evidence(release), *_sessions(result)):
            if _digest(mine, *fact) not in held:
                yield f"{what} of {release.ledger} stands in no session of stages/"


def left_out(run: Stated, evidence: EvidenceFile) -> Iterator[str]:
    """State that stages/ holds sessions that the results do not show, as of an attack left out."""
    seed = run.results.plan.get("seed")
    there = {
        _digest((seed, release.ledger), *fact)
        for release, result in zip(evidence.releases, run.results.releases, strict=False)
        for _, fact in _sessions(result)
    }
    held = map(_stored, run.folder.glob("stages/session-*.json"))
    others = sum(there.isdisjoint(_digest(*fact) for fact in facts) for facts in held if facts)
    if others:
        found = count(others, "session")
        yield f"stages/: what {found} found, of which these results show nothing"


def not_compared(folder: Path) -> Iterator[str]:
    """State that the evidence has no stages to be compared with, or who wrote them is not known."""
    if not (folder / "stages").is_dir():
        yield "stages/ is not here: evidence.json is not compared with what the sessions stored"
    own, sessions = written_here(folder)
    if own < sessions:
        yield f"stages/: {sessions - own} of {sessions} sessions are not signed with your key"


def written_here(folder: Path) -> tuple[int, int]:
    """Count the sessions in stages/ that this user's key signed, and all sessions there."""
    paths = sorted(folder.glob("stages/session-*.json"))
    return sum(map(stages.is_signed, paths)), len(paths)


def _evidence(release: OfRelease) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Name each fact of evidence.json, as `_stored` gives it."""
    for of in release.attacks:
        fact = ("seen", of.attack, [of.seen, of.tainted, of.access])
        yield f"evidence.json: what {of.attack} saw", fact
    for of_utility in release.utility:
        fact = ("blocks", "", of_utility["blocks"])
        yield "evidence.json: a measure of utility", fact


def _sessions(result: ReleaseResult) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for session in result.sessions:
        fact = ("session", session.purpose, session.model_dump(mode="json"))
        yield f"results.json: session {session.purpose}", fact


def _stored(path: Path) -> list[tuple[Any, ...]]:
    """Read a stage's (owner, what, purpose, values); none of a torn file.

    owner: the plan's seed, and the name of the release in the ledger.
    """
    try:
        stage = read_json(path)
        owner = tuple(stage["of"])
        session = SessionResult.model_validate(stage["session"])
        facts = [(owner, "session", session.purpose, session.model_dump(mode="json"))]
        seen = stage["seen"]
        if "evidence" in seen:
            values = [seen["evidence"], seen["tainted"], stage["access"]]
            return [*facts, (owner, "seen", session.purpose, values)]
        return [*facts, (owner, "blocks", "", seen.get("blocks", []))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _digest(owner: Any, what: str, purpose: str, values: Any) -> str:
    return digest_of_json([owner, what, purpose, values])
