"""Second answer of a finding, in a word and a sentence: whether it refutes the claim."""

from __future__ import annotations

import math

from audit.core.guarantee import Guarantee
from audit.core.terms import OnClaim
from audit.findings import bounds
from audit.findings.rejections import Rejections, claim_p_value, test_of, untestable
from audit.results.joined import LEVEL
from audit.results.measurement import EpsilonLower, Measurement
from audit.results.words import apart, at_least, at_most, count, percent


def on_claim(
    finding: Measurement, guarantee: Guarantee, rejections: Rejections
) -> tuple[OnClaim, str]:
    """Answer whether the claim is refuted, adjusted for all tests of it; if not, why."""
    epsilon = guarantee.epsilon
    if epsilon is None:
        return OnClaim.UNKNOWN, "What was promised is unknown."
    if math.isinf(epsilon):
        return OnClaim.NOTHING_CLAIMED, "Nothing was promised."
    why = untestable(finding, guarantee)
    if why:
        return OnClaim.NOT_TESTABLE, f"No test of the claim: {why}."
    if test_of(finding) in rejections.refuting:
        return OnClaim.REFUTED, _refuted(finding, guarantee)
    why = too_weak(finding, guarantee, rejections.family.claims)
    if why:
        return OnClaim.NOT_TESTABLE, f"No test of the claim: {why}."
    return OnClaim.NOT_REFUTED, _not_refuted(finding, guarantee)


def too_weak(finding: Measurement, guarantee: Guarantee, tests: int) -> str:
    """Explain why no outcome with this many trials could refute the claim; empty where one could.

    tests: number of tests of the claim that p-values are adjusted for.
    """
    if claim_p_value(finding, guarantee) is None:
        return finding.untested or "nothing was measured"
    if finding.untrained:
        return "what was planted may not have been trained on"
    if finding.charge_test is not None:
        return ""
    level, adjusted = LEVEL / tests, f"adjusted for {count(tests, 'test')} of it"
    if guarantee.constant:
        weak = finding.least_p >= level
        return f"so few trials could not refute it, {adjusted}" if weak else ""
    if finding.claim_test is not None:
        weak = finding.claim_test.least_p >= level
        return f"so few coins could not refute it, {adjusted}" if weak else ""
    bound = finding.epsilon_lower
    assert bound is not None
    return _too_few(bound, guarantee, tests, adjusted, finding.power.largest_epsilon)


def _too_few(
    bound: EpsilonLower, guarantee: Guarantee, tests: int, adjusted: str, largest: float | None
) -> str:
    epsilon, delta, level = guarantee.epsilon or 0.0, guarantee.delta or 0.0, LEVEL / tests
    most = bounds.most_at(bound, delta, level)
    if largest is not None:  # as many as this measure can name; known at the plan's δ alone
        lost = max(0.0, bounds.most_at(bound, bound.delta, level) - most)
        if most > epsilon >= largest - lost:
            at = f"at δ = {at_most(max(bound.delta, delta))}"
            return f"so few could refute at most ε = {at_least(largest - lost)} {at}, {adjusted}"
    if most > epsilon:
        return ""
    claimed = f"the claimed ε = {at_most(epsilon)}"
    if bound.method == "one_run" and delta and not bounds.refutable(epsilon, delta, tests):
        at = f"at δ = {at_most(delta)}"
        return f"no number of coins could refute {claimed} {at} by this test, {adjusted}"
    if bounds.most_at(bound, 0.0, level) > epsilon and bound.method == "one_run":
        return f"too few coins at δ = {at_most(delta)} to refute {claimed}, {adjusted}"
    return f"so few could refute at most ε = {at_least(most)}, {adjusted}, below {claimed}"


def _refuted(finding: Measurement, guarantee: Guarantee) -> str:
    if finding.charge_test is not None:
        return "Refuted: the claim rests on charges, and a query tells more than it was charged."
    if guarantee.constant:
        return "Refuted: the claim is independence of what was planted, and it depends on it."
    test = finding.claim_test
    if test is not None:
        return (
            f"Refuted: the mechanism claimed ({test.mechanism}) makes {test.v} of {test.r} right "
            f"guesses this improbable: p = {test.p_value:.2g}."
        )
    bound = finding.epsilon_lower
    assert bound is not None
    shown = bounds.at_delta(bound, guarantee.delta or 0.0)
    claimed, least = apart(guarantee.epsilon or 0.0, shown)
    return (
        f"Refuted: the claim is ε = {claimed} nats, and at least {least} was shown "
        f"({percent(bound.confidence)})."
    )


def _not_refuted(finding: Measurement, guarantee: Guarantee) -> str:
    claimed = f"The claim, ε = {at_most(guarantee.epsilon or 0.0)} nats, is not refuted"
    if finding.charge_test is not None:
        return f"{claimed}: no query was found to tell more than it was charged."
    if finding.claim_test is not None:
        test = finding.claim_test
        needed = "" if test.critical is None else f", {test.critical} would refute it"
        return f"{claimed}: {test.v} of {test.r} guesses right{needed}."
    bound = finding.epsilon_lower
    if bound is None or guarantee.constant:
        return f"{claimed}."
    shown = bounds.at_delta(bound, guarantee.delta or 0.0)
    above = shown > (guarantee.epsilon or 0.0)
    unsure = ": above it, but not beyond doubt once adjusted for all tests of it" if above else ""
    return f"{claimed}; shown: at least {at_least(shown)}{unsure}."
