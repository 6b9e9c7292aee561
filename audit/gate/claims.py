"""Limits on what is claimed. An ε of another unit, relation or basis satisfies none of them."""

from __future__ import annotations

import math

from audit.gate.matching import Releases, matching, unmatched
from audit.gate.outcome import Check, State
from audit.gate.policy import ClaimLimit
from audit.results.schema import GuaranteeResult


def checks(limit: ClaimLimit, releases: Releases) -> list[Check]:
    """Checks the claim of each matching release. Fails if no release matches."""
    checks = []
    for label, release in matching(releases, limit.defense):
        reason = unsatisfied(limit, release.guarantee)
        state = State.PASS if reason is None else State.FAIL
        met = f"the claimed ε is {_number(release.guarantee.epsilon)}, {_allowed(limit)}"
        checks.append(Check("claim", label, "", state, reason or met, limit.line))
    return checks or [unmatched("claim", limit.defense, "", limit.line)]


def unsatisfied(limit: ClaimLimit, claim: GuaranteeResult) -> str | None:
    """Why a claim does not satisfy the limit; None where it does."""
    allowed = _allowed(limit)
    if claim.epsilon is None:
        return f"the claimed ε is unknown; {allowed}"
    if math.isinf(claim.epsilon):
        return f"no ε is claimed; {allowed}"
    relations = (claim.relation, *claim.also)
    if claim.unit != limit.unit or limit.relation not in relations:
        return f"the claim is per {claim.unit} ({claim.relation}); {allowed}"
    if claim.basis != limit.basis:
        return f"the claim is {claim.basis}; {allowed}"
    if claim.alpha != limit.alpha:
        order = "an (ε, δ)" if claim.alpha is None else f"of Rényi order {claim.alpha:g}"
        return f"the claim is {order}; {allowed}"
    if (claim.delta or 0.0) > limit.max_delta:
        return f"the claim has δ = {claim.delta:.4g}; {allowed}, δ at most {limit.max_delta:.4g}"
    if claim.epsilon > limit.max_epsilon:
        return f"the claimed ε is {_number(claim.epsilon)}; {allowed}"
    return None


def _allowed(limit: ClaimLimit) -> str:
    order = "" if limit.alpha is None else f", Rényi order {limit.alpha:g}"
    return (
        f"allowed: at most {limit.max_epsilon:.4g} nats per {limit.unit} ({limit.relation}), "
        f"{limit.basis}{order}"
    )


def _number(epsilon: float | None) -> str:
    return "unknown" if epsilon is None else f"{epsilon:.6g}"
