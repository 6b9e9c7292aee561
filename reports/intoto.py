"""statement.intoto.json: an in-toto Statement v1 with the predicate test-result v0.1, unsigned.

It says what the gate says, by policy and baseline of the working directory. Its subjects are what
is released and results.json; see https://github.com/in-toto/attestation.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError
from audit.core.terms import Leaked, OnClaim
from audit.gate import baseline, files, policy, verdict
from audit.gate.identity import labels
from audit.gate.outcome import Check, Outcome, State
from audit.gate.render.escaping import visible
from audit.results import digests
from audit.results.schema import Results, to_json

FILENAME = "statement.intoto.json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OPEN = (State.INCONCLUSIVE, State.WAIVED)


def write(results: Results, folder: Path) -> Path:
    """Writes statement.intoto.json into `folder`.

    Raises UsageError for a run that is not complete: nothing is attested of a part.
    """
    if results.status != "complete":
        raise UsageError(f"{folder}: the run is {results.status}, not complete; run its plan again")
    document = statement(results, folder, date.today())
    return files.replaced(folder / FILENAME, json.dumps(document, indent=1) + "\n")


def statement(results: Results, folder: Path, today: date) -> dict[str, Any]:
    """Builds the statement. today: decides which waivers are valid."""
    outcome = verdict(results, files.policy_in(None), files.baseline_in(None), today)
    return {
        "_type": STATEMENT,
        "subject": [*_subjects(results, folder), _written(results, folder)],
        "predicateType": PREDICATE,
        "predicate": {
            **_answers(outcome, _leaks(results), _refuted(results)),
            "configuration": list(_configuration(results)),
        },
    }


def _answers(outcome: Outcome, leaks: set[str], refuted: Sequence[str]) -> dict[str, Any]:
    """Sorts the checks. One that is waived, or a leak that is allowed, never counts as passed.

    leaks, refuted: ids of the checks of what leaked, and of claims that were refuted. These are
    here though a policy checks no claim; no other check that is not applicable is in a list. Names
    so long that they are cut may be the same; such a name is in the worst list alone.
    """
    checks = outcome.checks
    failed = dict.fromkeys(c.id for c in checks if c.state == State.FAIL)
    open_checks = [c.id for c in checks if c.state in _OPEN or _allowed(c, leaks)]
    warned = dict.fromkeys([*open_checks, *(name for name in refuted if name not in failed)])
    passed = dict.fromkeys(c.id for c in checks if c.state == State.PASS)
    open_ = bool(warned) or outcome.state == State.INCONCLUSIVE
    return {
        "result": "FAILED" if outcome.state == State.FAIL else "WARNED" if open_ else "PASSED",
        "passedTests": [name for name in passed if name not in {**failed, **warned}],
        "warnedTests": [name for name in warned if name not in failed],
        "failedTests": list(failed),
    }


def _allowed(check: Check, leaks: set[str]) -> bool:
    return check.state == State.SKIPPED and check.id in leaks


def _leaks(results: Results) -> set[str]:
    """The ids that the gate gives to the checks of findings that are leaks."""
    audited = [release for release in results.releases if not release.reference]
    return {
        f"leak/{visible(label)}/{visible(f'{finding.attack}.{finding.metric}')}"
        for label, release in zip(labels(audited), audited, strict=True)
        for finding in release.findings
        if finding.leaked == Leaked.LEAK
    }


def _refuted(results: Results) -> list[str]:
    """The ids that the gate gives to the checks of claims that a measure refutes."""
    audited = [release for release in results.releases if not release.reference]
    return [
        f"empirical/{visible(label)}"
        for label, release in zip(labels(audited), audited, strict=True)
        if release.claim == OnClaim.REFUTED
    ]


def _subjects(results: Results, folder: Path) -> Iterator[dict[str, Any]]:
    """Describes what is released, as far as it is known.

    The models of a service are protected by the service alone. So they are one subject, with the
    hash of their folder, and none of them is a subject by itself.
    """
    audited = [release for release in results.releases if not release.reference]
    for label, release in zip(map(visible, labels(audited)), audited, strict=True):
        known = digests.weights(folder, results, release)
        if known and release.guarantee.release == "model":
            ((name, digest),) = known.items()
            yield _described(f"{label}/{name}", "sha256", digest)
        elif known:
            yield _described(f"{label}/{digests.MEMBERS}", "dirHash", digests.of_members(known))
        else:
            yield from _planned("finished", results.plan.get("finished"))


def _written(results: Results, folder: Path) -> dict[str, Any]:
    """Describes results.json: the file that is there, else what would be written."""
    path = folder / "results.json"
    text = (
        path.read_bytes() if path.is_file() else to_json(results).encode(errors="backslashreplace")
    )
    return _described("results.json", "sha256", hashlib.sha256(text).hexdigest())


def _configuration(results: Results) -> Iterator[dict[str, Any]]:
    """Describes what the verdict depends on: the rules, the baseline and the plan."""
    rules = Path(policy.FILENAME)
    if rules.is_file():
        yield _described(rules.name, "sha256", digests.of_file(rules))
    else:
        yield _described("default policy", "sha256", _default_policy())
    if Path(baseline.FILENAME).is_file():
        yield _described(baseline.FILENAME, "sha256", digests.of_file(Path(baseline.FILENAME)))
    yield from _planned("plan", {"name": "plan", "sha256": results.plan.get("hash")})


def _default_policy() -> str:
    """Computes SHA-256 of the default rules, written as JSON with sorted keys."""
    rules = json.dumps(dataclasses.asdict(policy.Policy()), sort_keys=True)
    return hashlib.sha256(rules.encode()).hexdigest()


def _planned(what: str, one: Any) -> Iterator[dict[str, Any]]:
    """Describes a model or a plan by the digest in the results, which is of no single file."""
    digest = one.get("sha256") if isinstance(one, dict) else None
    if isinstance(digest, str) and _SHA256.fullmatch(digest):
        yield _described(visible(str(one.get("name", what))), "auditDigest", digest)


def _described(name: str, algorithm: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {algorithm: digest}}
