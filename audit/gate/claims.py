"""Limits on what is claimed: an ε of another unit, relation or basis satisfies none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

from audit.gate.outcome import Check, State
from audit.gate.policy import ClaimLimit
from audit.results.schema import GuaranteeResult, ReleaseResult


def checks(limit: ClaimLimit, releases: Sequence[tuple[str, ReleaseResult]]) -> list[Check]:
    """A check a matching release. A limit that guards nothing fails: it may be misspelt."""
    found = []
    for label, release in releases:
        if fnmatchcase(release.defense, limit.defense):
            reason = unsatisfied(limit, release.guarantee)
            state = State.PASS if reason is None else State.FAIL
            met = f"the claimed ε is {_number(release.guarantee.epsilon)}, {_asked(limit)}"
            found.append(Check("claim", label, "", state, reason or met, limit.line))
    if found:
        return found
    said = f"no audited release is called {limit.defense}"
    return [Check("claim", limit.defense, "", State.FAIL, said, limit.line)]


def unsatisfied(limit: ClaimLimit, claim: GuaranteeResult) -> str | None:
    """Why a claim does not satisfy the limit; None where it does."""
    asked = _asked(limit)
    if claim.epsilon is None:
        return f"the claimed ε is unknown; {asked}"
    if math.isinf(claim.epsilon):
        return f"no ε is claimed; {asked}"
    relations = (claim.relation, *claim.also)
    if claim.unit != limit.unit or limit.relation not in relations:
        return f"the claim is per {claim.unit} ({claim.relation}); {asked}"
    if claim.basis != limit.basis:
        return f"the claim is {claim.basis}; {asked}"
    if claim.alpha != limit.alpha:
        order = "an (ε, δ)" if claim.alpha is None else f"of Rényi order {claim.alpha:g}"
        return f"the claim is {order}; {asked}"
    if (claim.delta or 0.0) > limit.max_delta:
        return f"the claim allows δ = {claim.delta:.4g}; {asked}, δ at most {limit.max_delta:.4g}"
    if claim.epsilon > limit.max_epsilon:
        return f"the claimed ε is {_number(claim.epsilon)}; {asked}"
    return None


def _asked(limit: ClaimLimit) -> str:
    order = "" if limit.alpha is None else f", Rényi order {limit.alpha:g}"
    return (
        f"allowed: at most {limit.max_epsilon:.4g} nats per {limit.unit} ({limit.relation}), "
        f"{limit.basis}{order}"
    )


def _number(epsilon: float | None) -> str:
    return "unknown" if epsilon is None else f"{epsilon:.6g}"
