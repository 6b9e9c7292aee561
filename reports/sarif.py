"""report.sarif: the open checks of the gate as SARIF 2.1.0, with the policy's lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from audit import __version__
from audit.core.digest import sha256_of
from audit.gate.outcome import Check, Outcome, State
from audit.gate.render import rules
from reports import Format, Report

FILENAME = "report.sarif"
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_IDS = [one.id for one in rules.RULES]
_LEVELS = {
    State.FAIL: "error",
    State.INCONCLUSIVE: "warning",
    State.WAIVED: "note",
    State.WARNED: "note",
}


@dataclass(frozen=True)
class Sarif(Format):
    """The checks of the gate that are open, waived or a warning, for code scanning."""

    def files(self, report: Report) -> dict[str, bytes]:
        return {FILENAME: render(report.outcome).encode("ascii")}


def render(outcome: Outcome) -> str:
    """Format the file: the checks that failed, are inconclusive, waived or a warning."""
    driver = {
        "name": "audit",
        "version": __version__,
        "rules": [rules.rule(one) for one in rules.RULES],
        "supportedTaxonomies": rules.supported(),
    }
    run = {
        "tool": {"driver": driver},
        "taxonomies": rules.taxonomies(),
        "results": [_result(check, outcome) for check in outcome.checks if check.state in _LEVELS],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def _result(check: Check, outcome: Outcome) -> dict[str, Any]:
    result = {
        "ruleId": check.rule,
        "ruleIndex": _IDS.index(check.rule),
        "level": "error" if outcome.stops(check) else _LEVELS[check.state],
        "message": {"text": _message(f"{check.id}: {check.state}: {check.sentence}")},
        "locations": [{"physicalLocation": _place(check, outcome)}],
        "partialFingerprints": {"auditCheck/v1": fingerprint(check)},
    }
    if check.state == State.WAIVED:
        result["suppressions"] = [{"kind": "external", "status": "accepted"}]
    return result


def fingerprint(check: Check) -> str:
    """Identify a check across builds, whatever its result."""
    return sha256_of(check.id)


def _message(text: str) -> str:
    """Escape brackets: SARIF reads [text](1) as a link."""
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _place(check: Check, outcome: Outcome) -> dict[str, Any]:
    policy = PurePath(outcome.policy)
    shown = policy.name if policy.is_absolute() or ".." in policy.parts else policy.as_posix()
    return {
        "artifactLocation": {"uri": quote(shown, errors="replace")},
        "region": {"startLine": check.line or 1},
    }
