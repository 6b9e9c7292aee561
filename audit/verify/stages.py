"""Compares evidence.json with the sessions that it was taken from, while stages/ is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.core.digest import digest_of_json
from audit.measure.evidence_file import EvidenceFile


def of_stages(folder: Path, evidence: EvidenceFile) -> Iterator[str]:
    """Says what an attack saw, by evidence.json, that no session in stages/ has stored."""
    if not (folder / "stages").is_dir():
        return
    stored = filter(None, map(_attacked, sorted(folder.glob("stages/session-*.json"))))
    held = {_digest(*one) for one in stored}
    for release in evidence.releases:
        for of in release.attacks:
            if _digest(of.seen, of.tainted, of.access) not in held:
                what = f"what {of.attack} saw of {release.ledger}"
                yield f"evidence.json: {what} stands in no session of stages/"


def not_compared(folder: Path) -> Iterator[str]:
    """Says that there are no stages to compare the evidence with."""
    if not (folder / "stages").is_dir():
        yield "stages/ is not here: evidence.json is not compared with what the sessions stored"


def _attacked(path: Path) -> tuple[list[Any], bool, int] | None:
    """Reads what a session's attack saw; None for another session, or a torn file."""
    try:
        stage = json.loads(path.read_text(encoding="utf-8"))
        return stage["seen"]["evidence"], stage["seen"]["tainted"], stage["access"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _digest(seen: list[Any], tainted: bool, access: int) -> str:
    return digest_of_json([seen, tainted, access])
