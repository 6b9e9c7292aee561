"""The default policy: no leak above control, and no empirical ε above the claimed one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from audit.findings import LEVEL, bounds
from audit.findings.verdict import leaks
from audit.gate.metric import UNTRAINED, metric_of
from audit.gate.outcome import Check, State
from audit.results.schema import FindingResult, ReleaseResult


def leak_checks(label: str, release: ReleaseResult) -> Iterator[Check]:
    """A check a finding, and one for each attack that measured nothing at all.

    What asks more than the release gives is no leak of the release, whatever it sees.
    """
    for attack in dict.fromkeys(finding.attack for finding in release.findings):
        of_attack = [f for f in release.findings if f.attack == attack]
        given = [f for f in of_attack if not f.stronger_than_release]
        measured = [f for f in given if f.value is not None]
        if not given:
            why = "asks more than the release gives"
            yield Check("leak", label, attack, State.SKIPPED, f"{attack} {why}")
        elif not measured:
            why = "measured nothing; what was not measured is not known to be safe"
            yield Check("leak", label, attack, State.INCONCLUSIVE, f"{attack} {why}")
        for finding in measured:
            yield _leak(label, finding)


def _leak(label: str, finding: FindingResult) -> Check:
    seen = measured(finding)
    if leaks(finding):
        state, said = State.FAIL, f"a leak above its control ({seen})"
    elif finding.verdict == "silent":
        state, said = State.PASS, f"not told apart from chance ({seen})"
    else:
        state, said = State.INCONCLUSIVE, f"neither a leak nor its absence is shown ({seen})"
    return Check("leak", label, f"{finding.attack}.{finding.metric}", state, said)


def measured(finding: FindingResult) -> str:
    """A finding's value with its interval, its trials and its p-value."""
    metric = metric_of(finding)
    if metric is None:
        return "not measured"
    counted = f"{metric.k} of {metric.n}" if metric.counted else f"n = {metric.n}"
    between = "" if metric.ci is None else f" [{metric.ci[0]:.4g}, {metric.ci[1]:.4g}]"
    p = "" if finding.p_value is None else f", p = {finding.p_value:.2g}"
    return f"{metric.value:.4g}{between}, {counted}{p}"


def empirical_check(label: str, release: ReleaseResult) -> Check:
    """Whether an attack found more ε than is claimed, for the claim's unit and relation.

    Verdicts decide, since they are adjusted for all tests of the release; a bound that is above the
    claim by itself only is not enough for either. Nor is silence where no outcome could have
    refuted the claim.
    """
    claim = release.guarantee.claim

    def check(state: State, sentence: str) -> Check:
        return Check("empirical", label, "", state, sentence)

    if claim.epsilon is None or math.isinf(claim.epsilon):
        return check(State.SKIPPED, "no ε is claimed, so none can be exceeded")
    said = f"claimed: ε = {claim.epsilon:.4g} nats per {claim.unit} ({claim.relation})"
    refuting = [f for f in release.findings if f.verdict == "refuted"]
    if refuting:
        by = ", ".join(f"{f.attack}.{f.metric}" for f in refuting)
        return check(State.FAIL, f"{said}; refuted by {by}")
    reasons = [
        (f, b, claim.incomparable(b.unit, b.relation, b.delta))
        for f in release.findings
        if (b := f.epsilon_lower) and not f.stronger_than_release
    ]
    tested = [f for f, _, reason in reasons if reason is None]
    found = [bound for _, bound, reason in reasons if reason is None]
    if found:
        most = max(bound.value for bound in found)
        told = f"{said}; found: at least {most:.4g}, at {found[0].confidence:.0%} each"
        if most > claim.epsilon:
            beyond = "above the claim, but not beyond doubt once adjusted for all tests"
            return check(State.INCONCLUSIVE, f"{told}; {beyond}")
        if all(f.untrained for f in tested):
            return check(State.INCONCLUSIVE, f"{told}; {UNTRAINED}")
        unable = _unable(tested, release)
        if unable:
            return check(State.INCONCLUSIVE, f"{told}; {unable}")
        return check(State.PASS, told)
    if reasons:
        return check(State.SKIPPED, f"{said}; no attack of this run tests it: {reasons[0][2]}")
    return check(State.INCONCLUSIVE, f"{said}; no attack of this run gives a bound on ε")


def _unable(tested: Sequence[FindingResult], release: ReleaseResult) -> str:
    """Why so few coins could not have refuted the claim, however they had fallen; empty if they
    could."""
    claim = release.guarantee.claim
    epsilon, delta = claim.epsilon or 0.0, claim.delta or 0.0
    able = [f for f in tested if not f.untrained]
    largest = max((f.power.largest_epsilon or 0.0 for f in able), default=0.0)
    if largest <= epsilon:
        return f"so few could show {largest:.4g} at most"
    tests = max(release.tests, len({f.test for f in tested}))
    evidence = [f.epsilon_lower for f in able if f.epsilon_lower is not None]
    if min(bounds.least_claim_p_value(b, epsilon, delta) for b in evidence) >= LEVEL / tests:
        return f"so few could not refute it beyond doubt, adjusted for {tests} tests"
    return ""
