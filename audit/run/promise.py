"""The promise that is handed on with a release, without figures that come from private text."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from audit.core.guarantee import Guarantee
from audit.core.terms import Relation, Unit
from audit.results import quoting
from audit.results.schema import GuaranteeResult, ReleaseResult, Results

_FOR_THE_AUDITOR = ("phrases", "teachers_per_user")  # counted in private text
_STATED = "per user ("  # how a condition begins that bounds ε per user


def promise(results: Results, found: ReleaseResult, guarantee: Guarantee) -> dict[str, Any]:
    """Describe a release for whoever receives it: the bound per user, the guarantee, the answers.

    What was measured is left out: utility and rates are read from private text, and no guarantee
    covers them.
    """
    return {
        "per_user": bound_per_user(guarantee),
        "defense": found.defense,
        "parameters": found.parameters,
        "guarantee": public(guarantee),
        "audit": {
            "plan_hash": results.plan["hash"],
            "leaked": quoting.leaked_of(found),
            "claim": str(found.claim),
            "attacks": sorted({finding.attack for finding in found.findings}),
            "not_tested": results.not_tested,
        },
    }


def public(guarantee: Guarantee) -> dict[str, Any]:
    """Convert a guarantee to JSON values, without what only its auditor may see."""
    document = guarantee.as_json() if isinstance(guarantee, GuaranteeResult) else asdict(guarantee)
    return {name: value for name, value in document.items() if name not in _FOR_THE_AUDITOR}


def bound_per_user(guarantee: Guarantee) -> str:
    """State the bound on ε for one whole user, nats, or that there is none."""
    if guarantee.promises_nothing:
        return "no bound per user: nothing is promised"
    stated = next((each for each in guarantee.conditions if each.startswith(_STATED)), None)
    if stated is not None:
        return stated
    relations = (guarantee.relation, *guarantee.also)
    whole = guarantee.unit == Unit.USER
    if not whole and not (guarantee.unit == Unit.PART and Relation.REPLACE in relations):
        return (
            f"no bound per user: the promise is per {guarantee.unit} ({guarantee.relation}), "
            "which bounds no whole user"
        )
    relation = guarantee.relation if whole else "one part holds all records of a user"
    return f"per user: {_size(guarantee)} ({relation}; {guarantee.basis})"


def _size(guarantee: Guarantee) -> str:
    assert guarantee.epsilon is not None and not math.isinf(guarantee.epsilon)
    if guarantee.alpha is not None:
        return f"D_α of order {guarantee.alpha:g} is at most {guarantee.epsilon:.6g} nats"
    return f"ε is at most {guarantee.epsilon:.6g} nats at δ = {guarantee.delta or 0:g}"
