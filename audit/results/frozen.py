"""A frozen plan: what will be audited and tested, stated before the audit.

It is an in-toto Statement v1. The plan in it names the manifest by a digest that a secret key of at
least 128 bits salts, so that no value can be found by trying all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from audit.core.digest import digest_of_json
from audit.core.errors import UsageError, first_line
from audit.core.files import read_json

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:llm-audit:frozen-plan:1"
NAMESPACE = "llm-audit-plan"  # of ssh-keygen: a signature for another purpose is refused
_INFINITE = float("inf")


@dataclass(frozen=True)
class Frozen:
    """A plan and its tests, fixed before the run.

    plan: the plan's document, as results.json has it, without its hash. releases: labels of all
        releases that the plan names, references included. tests, claim_tests: number of tests that
        each release's p-values are adjusted for, and of its bounds on ε. level: their level.
    rules: SHA-256 of the gate's rules; "" for the default rules.
    """

    plan: Mapping[str, Any]
    releases: Sequence[str]
    tests: int
    claim_tests: int
    level: float
    rules: str

    @property
    def hash(self) -> str:
        """The plan's hash, as of the run that follows it."""
        return digest_of_json(self.plan)

    @property
    def text(self) -> str:
        """The statement, to be signed as a file."""
        fixed = asdict(self)
        statement = {
            "_type": STATEMENT,
            "subject": [{"name": "plan", "digest": {"auditDigest": self.hash}}],
            "predicateType": PREDICATE,
            "predicate": {
                **fixed,
                "plan": with_words(self.plan),
                "null": "what a release shows does not depend on what was planted",
                "adjustment": "holm",
            },
        }
        return json.dumps(statement, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: Path) -> Frozen:
    """Read a frozen plan. Raises UsageError for any other file, or one whose subject differs."""
    try:
        statement = read_json(path)
        if statement["predicateType"] != PREDICATE:
            raise UsageError(f"{path}: not a frozen plan; `audit plan --freeze FILE` writes one")
        fixed = statement["predicate"]
        found = Frozen(
            _with_numbers(fixed["plan"]),
            tuple(map(str, fixed["releases"])),
            int(fixed["tests"]),
            int(fixed["claim_tests"]),
            float(fixed["level"]),
            str(fixed["rules"]),
        )
        (subject,) = statement["subject"]
        stated = subject["digest"]["auditDigest"]
    except UsageError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: not a frozen plan ({first_line(error)})") from None
    if stated != found.hash:
        raise UsageError(f"{path}: its plan was edited: subject {stated}, hash {found.hash}")
    return found


def with_words(value: Any) -> Any:
    """Replace infinity by its word, since JSON has no number for it."""
    return _replaced(value, _INFINITE, "inf")


def _with_numbers(value: Any) -> Any:
    return _replaced(value, "inf", _INFINITE)


def _replaced(value: Any, old: Any, new: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(inner, old, new) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(inner, old, new) for inner in value]
    return new if value == old else value
