"""Two answers to each measurement of a release: what leaked, and whether this refutes the claim."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings.leaked import Sensitive, leaked
from audit.findings.on_claim import on_claim
from audit.findings.rejections import Family, Rejections, rejections
from audit.results.measurement import FindingResult, Measurement


def judge(
    measurements: Sequence[Measurement],
    guarantee: Guarantee,
    sensitive: Sensitive | None,
    family: Family,
) -> list[FindingResult]:
    """Answer both questions for all measurements of one release.

    sensitive: by (attack, metric), whether the positive control leaked in this run; None where the
    run has no references. family: how many tests p-values are adjusted for.
    """
    found = rejections(measurements, guarantee, family)
    return [_judged(one, guarantee, sensitive, found) for one in measurements]


def _judged(
    one: Measurement, guarantee: Guarantee, sensitive: Sensitive | None, found: Rejections
) -> FindingResult:
    word, sentence = leaked(one, found, sensitive)
    claim, claim_sentence = on_claim(one, guarantee, found)
    answers = {
        "leaked": word,
        "sentence": f"{one.observation} {sentence}".strip(),
        "claim": claim,
        "claim_sentence": claim_sentence,
    }
    return FindingResult(**{**dict(one), **answers})


def sensitive_where(
    measurements: Sequence[Measurement], guarantee: Guarantee, family: Family
) -> dict[tuple[str, str], bool]:
    """Find by (attack, metric) whether a positive control leaked."""
    own = {(one.attack, one.metric): True for one in measurements}
    judged = judge(measurements, guarantee, own, family)
    return {(f.attack, f.metric): f.leaked.detected for f in judged}


def leaks(finding: FindingResult) -> bool:
    """Return whether a judged finding is a leak of its release, not to insiders only."""
    return finding.leaked == Leaked.LEAK


def leaked_overall(findings: Sequence[FindingResult]) -> Leaked:
    """Join the first answers of a release: no leak found only if all tested findings agree."""
    own = [f for f in findings if not f.stronger_than_release]
    words = {f.leaked for f in own if f.p_value is not None or f.leaked == Leaked.LEAK}
    words.discard(Leaked.NOT_MEASURED)
    if Leaked.LEAK in words:
        return Leaked.LEAK
    if words == {Leaked.NONE_FOUND}:
        return Leaked.NONE_FOUND
    measured = any(f.value is not None and f.charge_test is None for f in own)
    return Leaked.INCONCLUSIVE if measured else Leaked.NOT_MEASURED


def claim_overall(findings: Sequence[FindingResult], guarantee: Guarantee) -> OnClaim:
    """Join the second answers of a release's findings, about its claim."""
    if guarantee.epsilon is None:
        return OnClaim.UNKNOWN
    if math.isinf(guarantee.epsilon):
        return OnClaim.NOTHING_CLAIMED
    words = {f.claim for f in findings}
    order = (OnClaim.REFUTED, OnClaim.NOT_REFUTED)
    return next((word for word in order if word in words), OnClaim.NOT_TESTABLE)
