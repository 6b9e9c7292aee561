"""Two answers to each measurement of a release: what leaked, and whether this refutes the claim."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings.leaked import leaked
from audit.findings.on_claim import on_claim
from audit.findings.rejections import Family, Rejections, rejections, test_of
from audit.findings.shows import Shows, beside_leak, silence_of
from audit.results.measurement import FindingResult, Measurement


def judge(
    measurements: Sequence[Measurement],
    guarantee: Guarantee,
    shows: Shows,
    family: Family,
) -> list[FindingResult]:
    """Answer both questions for all measurements of one release.

    shows: what the release has shown beside them. family: how many tests p-values are adjusted for.
    """
    found = rejections(measurements, guarantee, family)
    return [judged(one, guarantee, shows, found) for one in measurements]


def judged(
    one: Measurement, guarantee: Guarantee, shows: Shows, found: Rejections
) -> FindingResult:
    """Answer both questions for one measurement. found: the tests of its release."""
    silence = silence_of(one, shows, found.family.tests)
    word, sentence = leaked(one, found, silence)
    claim, claim_sentence = on_claim(one, guarantee, found)
    conditions = beside_leak(silence) if word.detected else silence
    alone = one.p_value is not None and test_of(one) not in found.measured
    measured = one.value is not None or alone  # else it has a reason of its own
    removed = silence.contact.removed and measured
    answers = {
        "silence": conditions if word != Leaked.NOT_MEASURED or removed else None,
        "leaked": word,
        "sentence": f"{one.observation} {sentence}".strip(),
        "claim": claim,
        "claim_sentence": claim_sentence,
    }
    return FindingResult(**{**dict(one), **answers})


def leaks(finding: FindingResult) -> bool:
    """Return whether a judged finding is a leak of its release, not to insiders only."""
    return finding.leaked == Leaked.LEAK


def claim_overall(findings: Sequence[FindingResult], guarantee: Guarantee) -> OnClaim:
    """Join the second answers of a release's findings, about its claim."""
    if guarantee.epsilon is None:
        return OnClaim.UNKNOWN
    if math.isinf(guarantee.epsilon):
        return OnClaim.NOTHING_CLAIMED
    words = {f.claim for f in findings}
    order = (OnClaim.REFUTED, OnClaim.NOT_REFUTED)
    return next((word for word in order if word in words), OnClaim.NOT_TESTABLE)
