"""statement.intoto.json: an in-toto Statement v1 with the predicate test-result v0.1, unsigned.

It states the gate's verdict. Its subjects are what is released and results.json; see
https://github.com/in-toto/attestation.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.core.digest import sha256_of, sha256_of_file
from audit.core.terms import Leaked, OnClaim
from audit.core.visible import visible
from audit.gate import baseline, policy
from audit.gate.outcome import Check, Outcome, State
from audit.results import digests
from audit.results.labels import labels
from audit.results.schema import ReleaseResult, to_json
from reports import Format, Report

FILENAME = "statement.intoto.json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OPEN = (State.INCONCLUSIVE, State.WAIVED, State.WARNED)


@dataclass(frozen=True)
class InToto(Format):
    """The gate's verdict on the released weights, to be signed; only of a complete run."""

    def files(self, report: Report) -> dict[str, bytes]:
        text = json.dumps(statement(report), indent=1)
        return {FILENAME: f"{text}\n".encode("ascii")}


def statement(report: Report) -> dict[str, Any]:
    """Build the statement."""
    return {
        "_type": STATEMENT,
        "subject": [*_subjects(report), _written(report)],
        "predicateType": PREDICATE,
        "predicate": {
            **_answers(report.outcome, _leaks(report), _refuted(report), _members(report)),
            "configuration": list(_configuration(report)),
        },
    }


def _answers(
    outcome: Outcome, leaks: set[str], refuted: Sequence[str], members: set[str]
) -> dict[str, Any]:
    """Sort the checks. One that is waived, or a leak that is allowed, never counts as passed.

    leaks, refuted: ids of the checks of what leaked, and of claims that were refuted. These are
    here though a policy checks no claim; no other check that is not applicable is in a list. Names
    so long that they are cut may be the same; such a name is in the worst list alone. members:
    releases whose models are a subject: a leak to insiders is one to whoever holds them.
    """
    checks = outcome.checks
    bad = [c for c in checks if c.state == State.WARNED and c.release in members]
    failed = dict.fromkeys(c.id for c in checks if c.state == State.FAIL or c in bad)
    open_checks = [c.id for c in checks if c.state in _OPEN or _allowed(c, leaks)]
    warned = dict.fromkeys([*open_checks, *(name for name in refuted if name not in failed)])
    passed = dict.fromkeys(c.id for c in checks if c.state == State.PASS)
    open_ = bool(warned) or outcome.state == State.INCONCLUSIVE
    return {
        "result": "FAILED" if failed else "WARNED" if open_ else "PASSED",
        "passedTests": [name for name in passed if name not in {**failed, **warned}],
        "warnedTests": [name for name in warned if name not in failed],
        "failedTests": list(failed),
    }


def _allowed(check: Check, leaks: set[str]) -> bool:
    return check.state == State.SKIPPED and check.id in leaks


def _audited(report: Report) -> list[tuple[str, ReleaseResult, dict[str, str]]]:
    """List the audited releases with their weights, under the names that the gate gives them."""
    every = zip(report.stored.releases, report.weights, strict=True)
    kept = [(release, known) for release, known in every if not release.reference]
    names = map(visible, labels([release for release, _ in kept]))
    return [(name, *one) for name, one in zip(names, kept, strict=True)]


def _leaks(report: Report) -> set[str]:
    """Return the ids that the gate gives to the checks of findings that are leaks."""
    return {
        f"leak/{label}/{visible(f'{finding.attack}.{finding.metric}')}"
        for label, release, _ in _audited(report)
        for finding in release.findings
        if finding.leaked == Leaked.LEAK
    }


def _members(report: Report) -> set[str]:
    """Return the labels of the releases whose models are a subject, as the gate has them."""
    audited = _audited(report)
    return {name for name, one, known in audited if known and one.guarantee.release != "model"}


def _refuted(report: Report) -> list[str]:
    """Return the ids that the gate gives to the checks of claims that a measure refutes."""
    audited = _audited(report)
    return [f"empirical/{label}" for label, one, _ in audited if one.claim == OnClaim.REFUTED]


def _subjects(report: Report) -> Iterator[dict[str, Any]]:
    """Describe what is released, as far as it is known.

    The models of a service are protected by the service alone. So they are one subject, with the
    hash of their folder, and none of them is a subject by itself.
    """
    for label, release, known in _audited(report):
        if known and release.guarantee.release == "model":
            ((name, digest),) = known.items()
            yield _described(f"{label}/{name}", "sha256", digest)
        elif known:
            yield _described(f"{label}/{digests.MEMBERS}", "dirHash", digests.of_members(known))
        else:
            yield from _planned("finished", report.stored.plan.get("finished"))


def _written(report: Report) -> dict[str, Any]:
    """Describe results.json: the file that is there, else what would be written."""
    path = report.folder / "results.json"
    if path.is_file():
        return _described(path.name, "sha256", sha256_of_file(path))
    text = to_json(report.stored).encode(errors="backslashreplace")
    return _described(path.name, "sha256", sha256_of(text))


def _configuration(report: Report) -> Iterator[dict[str, Any]]:
    """Describe what the verdict depends on: the rules, the baseline and the plan."""
    rules = report.policy or Path(policy.FILENAME)
    accepted = report.baseline or Path(baseline.FILENAME)
    if rules.is_file():
        yield _described(rules.name, "sha256", sha256_of_file(rules))
    else:
        yield _described("default policy", "sha256", _default_policy())
    if accepted.is_file():
        yield _described(accepted.name, "sha256", sha256_of_file(accepted))
    yield from _planned("plan", {"name": "plan", "sha256": report.stored.plan.get("hash")})


def _default_policy() -> str:
    """Compute SHA-256 of the default rules, written as JSON with sorted keys."""
    rules = json.dumps(dataclasses.asdict(policy.Policy()), sort_keys=True)
    return sha256_of(rules)


def _planned(what: str, one: Any) -> Iterator[dict[str, Any]]:
    """Describe a model or a plan by the digest in the results, which is of no single file."""
    digest = one.get("sha256") if isinstance(one, dict) else None
    if isinstance(digest, str) and _SHA256.fullmatch(digest):
        yield _described(visible(str(one.get("name", what))), "auditDigest", digest)


def _described(name: str, algorithm: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {algorithm: digest}}
