"""A frozen plan: what will be audited and tested, stated before the audit.

It is an in-toto Statement v1. The plan in it names the manifest by a digest that a secret key of at
least 128 bits salts, so that no value can be found by trying all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.core.digest import digest_of_json
from audit.core.errors import UsageError, first_line
from audit.core.files import LARGEST, parsed, regular
from audit.results.numbers import infinite, plain

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:llm-audit:frozen-plan:1"
NAMESPACE = "llm-audit-plan"  # of ssh-keygen: a signature for another purpose is refused


@dataclass(frozen=True)
class Frozen:
    """A plan and its tests, fixed before the run.

    plan: the plan's document, as results.json has it, without its hash. tests, claim_tests: number
        of tests that each release's p-values are adjusted for, and of its bounds on ε. level: their
        level. rules: SHA-256 of the gate's rules; "" for the default rules.
    """

    plan: Mapping[str, Any]
    tests: int
    claim_tests: int
    level: float
    rules: str

    @property
    def hash(self) -> str:
        """The plan's hash, as of the run that follows it."""
        return digest_of_json(self.plan)

    @property
    def releases(self) -> list[str]:
        """All releases that the plan names, references included."""
        return [_label(one["name"], one["parameters"]) for one in self.plan["defenses"]]

    @property
    def text(self) -> str:
        """The statement, to be signed as a file."""
        statement = {
            "_type": STATEMENT,
            "subject": [{"name": "plan", "digest": {"auditDigest": self.hash}}],
            "predicateType": PREDICATE,
            "predicate": {
                "plan": plain(self.plan),
                "releases": self.releases,
                "tests": self.tests,
                "claim_tests": self.claim_tests,
                "level": self.level,
                "rules": self.rules,
                "null": "what a release shows does not depend on what was planted",
                "adjustment": "tests of coins by tossing them again, others by Holm",
            },
        }
        return json.dumps(statement, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read(path: Path) -> Frozen:
    """Read a frozen plan. Raises UsageError for any file that is not as it was written."""
    try:
        content = regular(path, LARGEST).read_bytes()
        statement = parsed(content.decode())
        if statement["predicateType"] != PREDICATE:
            raise UsageError(f"{path}: not a frozen plan; `audit plan --freeze FILE` writes one")
        fixed = statement["predicate"]
        (subject,) = statement["subject"]
        plan = _of_hash(subject["digest"]["auditDigest"], fixed["plan"])
        if plan is None:
            raise UsageError(f"{path}: its plan was edited: the subject is not its hash")
        sizes = fixed["tests"], fixed["claim_tests"]
        found = Frozen(plan, *sizes, fixed["level"], fixed["rules"])
        same = found.text.encode() == content
    except UsageError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a frozen plan ({first_line(error)})") from None
    if not same:
        raise UsageError(
            f"{path}: was edited: it is not as `audit plan --freeze` writes this plan and its "
            "tests; freeze the plan again"
        )
    return found


def _of_hash(stated: Any, plan: Any) -> Any:
    """Return the plan, with numbers for words of infinity or without, that has the stated hash."""
    both = (plan, infinite(plan))
    return next((one for one in both if digest_of_json(one) == stated), None)


def _label(name: str, parameters: Mapping[str, Any]) -> str:
    """Name a release with all its parameters."""
    words = ",".join(f"{key}={_word(value)}" for key, value in parameters.items())
    return f"{name}:{words}" if words else name


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def signature_of(path: Path) -> Path:
    """Name the file of a statement's signature, as ssh-keygen does."""
    return path.with_name(f"{path.name}.sig")
