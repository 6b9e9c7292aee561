"""Gate rules that apply without an audit.toml: no leak in a defended release, no claim refuted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from audit.core.terms import Verdict
from audit.findings import LEVEL, bounds
from audit.findings.verdict import leaks
from audit.gate.metric import UNTRAINED, between, metric_of
from audit.gate.outcome import Check, State
from audit.results.schema import FindingResult, ReleaseResult


def leak_checks(label: str, release: ReleaseResult) -> Iterator[Check]:
    """Checks each finding for a leak, and adds a check for each attack that measured nothing.

    A finding that needs more access than the release gives is no leak of that release.
    """
    for attack in dict.fromkeys(finding.attack for finding in release.findings):
        of_attack = [f for f in release.findings if f.attack == attack]
        applicable = [f for f in of_attack if not f.stronger_than_release]
        measured = [f for f in applicable if f.value is not None]
        if not applicable:
            why = "needs more access than the release gives"
            yield Check("leak", label, attack, State.SKIPPED, f"{attack} {why}")
        elif not measured:
            why = "measured nothing, which does not show that the release is safe"
            yield Check("leak", label, attack, State.INCONCLUSIVE, f"{attack} {why}")
        for finding in measured:
            yield _leak(label, finding)


def _leak(label: str, finding: FindingResult) -> Check:
    seen = measured(finding)
    if leaks(finding):
        state, sentence = State.FAIL, f"a leak above its control ({seen})"
    elif finding.verdict == Verdict.SILENT:
        state, sentence = State.PASS, f"no different from chance ({seen})"
    else:
        state, sentence = State.INCONCLUSIVE, f"neither a leak nor its absence is shown ({seen})"
    return Check("leak", label, f"{finding.attack}.{finding.metric}", state, sentence)


def measured(finding: FindingResult) -> str:
    """Formats a finding's value with its interval, its trials and its p-value."""
    metric = metric_of(finding)
    if metric is None:
        return "not measured"
    counted = f"{metric.k} of {metric.n}" if metric.counted else f"n = {metric.n}"
    p = "" if finding.p_value is None else f", p = {finding.p_value:.2g}"
    return f"{metric.value:.4g}{between(metric.ci)}, {counted}{p}"


def empirical_check(label: str, release: ReleaseResult) -> Check:
    """Checks whether an attack shows more ε (nats) than claimed, for the claim's unit and relation.

    FAIL: a verdict refutes the claim. Verdicts are adjusted for all tests of the release.
    INCONCLUSIVE: a single bound is above the claim without that adjustment, or no outcome could
    have refuted the claim.
    """
    claim = release.guarantee.claim

    def check(state: State, sentence: str) -> Check:
        return Check("empirical", label, "", state, sentence)

    if claim.epsilon is None or math.isinf(claim.epsilon):
        return check(State.SKIPPED, "no ε is claimed, so none can be exceeded")
    claimed = f"claimed: ε = {claim.epsilon:.4g} nats per {claim.unit} ({claim.relation})"
    refuting = [f for f in release.findings if f.verdict == Verdict.REFUTED]
    if refuting:
        by = ", ".join(f"{f.attack}.{f.metric}" for f in refuting)
        return check(State.FAIL, f"{claimed}; refuted by {by}")
    reasons = [
        (f, b, claim.incomparable(b.unit, b.relation, b.delta))
        for f in release.findings
        if (b := f.epsilon_lower) and not f.stronger_than_release
    ]
    tested = [f for f, _, reason in reasons if reason is None]
    lower = [bound for _, bound, reason in reasons if reason is None]
    if lower:
        most = max(bound.value for bound in lower)
        seen = (
            f"{claimed}; measured: at least {most:.4g}, confidence {lower[0].confidence:.0%} each"
        )
        if most > claim.epsilon:
            weak = "above the claim, but not significant once adjusted for all tests"
            return check(State.INCONCLUSIVE, f"{seen}; {weak}")
        if all(f.untrained for f in tested):
            return check(State.INCONCLUSIVE, f"{seen}; {UNTRAINED}")
        unable = _unable(tested, release)
        if unable:
            return check(State.INCONCLUSIVE, f"{seen}; {unable}")
        return check(State.PASS, seen)
    if reasons:
        return check(State.SKIPPED, f"{claimed}; no attack of this run tests it: {reasons[0][2]}")
    return check(State.INCONCLUSIVE, f"{claimed}; no attack of this run gives a bound on ε")


def _unable(tested: Sequence[FindingResult], release: ReleaseResult) -> str:
    """Why no outcome of so few trials could have refuted the claim; empty if one could."""
    claim = release.guarantee.claim
    epsilon, delta = claim.epsilon or 0.0, claim.delta or 0.0
    able = [f for f in tested if not f.untrained]
    largest = max((f.power.largest_epsilon or 0.0 for f in able), default=0.0)
    if largest <= epsilon:
        return f"so few trials could show {largest:.4g} at most"
    tests = max(release.tests, len({f.test for f in tested}))
    evidence = [f.epsilon_lower for f in able if f.epsilon_lower is not None]
    if min(bounds.least_claim_p_value(b, epsilon, delta) for b in evidence) >= LEVEL / tests:
        return f"so few trials could not refute it, adjusted for {tests} tests"
    return ""
