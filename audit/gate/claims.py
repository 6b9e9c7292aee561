"""Limits on what is claimed. An ε of another unit, relation or basis satisfies none of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from audit.gate.matching import Releases, matching, unmatched
from audit.gate.outcome import Check, State
from audit.gate.policy import NOISE, ClaimLimit
from audit.results.schema import GuaranteeResult, ReleaseResult
from audit.results.words import at_most


def checks(limit: ClaimLimit, releases: Releases) -> list[Check]:
    """Check the claim of each matching release. Fails if no release matches."""
    checks, matched = [], matching(releases, limit.defense)
    for label, release in matched:
        reason = unsatisfied(limit, release.guarantee) or _noise(limit, release)
        state = State.PASS if reason is None else State.FAIL
        met = f"the claimed ε is {_number(release.guarantee.epsilon)}, {_allowed(limit)}"
        checks.append(Check("claim", label, "", state, reason or met, limit.line))
    if matched and limit.max_total is not None:
        checks.append(_total(limit, limit.max_total, [release for _, release in matched]))
    return checks or [unmatched("claim", limit.defense, "", limit.line)]


def _noise(limit: ClaimLimit, release: ReleaseResult) -> str | None:
    """Explain why the source of a release's noise does not satisfy the limit; None if it does."""
    if limit.noise is None:
        return None
    given = source(release.parameters)
    if given == limit.noise:
        return None
    return f"the noise must come from {limit.noise!r}; it comes from {given or 'an unknown source'}"


def source(parameters: Mapping[str, Any]) -> str | None:
    """Read where a release's noise comes from; None if its parameters do not state it."""
    given = (parameters.get(name) for name in ("source", "noise"))
    return next((value for value in given if value in NOISE), None)


def _total(limit: ClaimLimit, most: float, releases: Sequence[ReleaseResult]) -> Check:
    """Check the sum of ε over releases, which bounds what all of them together promise."""
    epsilons = [release.guarantee.epsilon for release in releases]
    total = math.inf if None in epsilons else math.fsum(e for e in epsilons if e is not None)
    state = State.PASS if total <= most * (1 + 1e-12) else State.FAIL  # .1 + .2 is .3
    unit = f"per {limit.unit} ({limit.relation})"
    sentence = f"{len(releases)} releases together: ε = {_number(total)} nats {unit}"
    return Check(
        "claim", limit.defense, "total", state, f"{sentence}; allowed: {most:.4g}", limit.line
    )


def unsatisfied(limit: ClaimLimit, claim: GuaranteeResult) -> str | None:
    """Explain why a claim does not satisfy the limit; None where it does."""
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
        has = f"the claim has δ = {at_most(claim.delta or 0.0, 4)}"
        return f"{has}; {allowed}, δ at most {limit.max_delta:.4g}"
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
    return "unknown" if epsilon is None else at_most(epsilon, 6)
