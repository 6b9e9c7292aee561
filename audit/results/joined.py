"""Joins the first answers of several findings into one, for a release or one of its attacks."""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.terms import Leaked, Shown
from audit.results.measurement import FindingResult, Measurement

LEVEL = 0.05  # family-wise, over the tests of one release
GREY = 0.15  # of adjusted p-values: up to it neither a leak nor its absence is shown


def leaked_overall(findings: Sequence[FindingResult]) -> Leaked:
    """Join the first answers of a release.

    No leak found needs that each attack, for each kind of secret that it tests, has a measure that
    found none where it would have: a blind measure says nothing, and another may speak for it.
    What was removed before training was not measured, and what the removal missed is not covered.
    """
    own, tested = _own(findings), _tested(findings)
    if any(f.leaked == Leaked.LEAK for f in tested):
        return Leaked.LEAK
    silent = any(f.leaked == Leaked.NONE_FOUND for f in tested)
    if silent and not against_silence(findings) and not any(f.removed for f in tested):
        return Leaked.NONE_FOUND
    known = (f for f in own if f.value is not None and f.charge_test is None)
    measured = any(not f.removed for f in known)
    return Leaked.INCONCLUSIVE if measured else Leaked.NOT_MEASURED


def _own(findings: Sequence[FindingResult]) -> list[FindingResult]:
    return [f for f in findings if not f.stronger_than_release]


def _tested(findings: Sequence[FindingResult]) -> list[FindingResult]:
    own = _own(findings)
    tests = [f for f in own if f.p_value is not None or leak_p(f) is not None]  # or guesses alone
    return [*tests, *(f for f in own if f.leaked == Leaked.LEAK or is_open_exhibit(f))]


def against_silence(findings: Sequence[FindingResult]) -> list[FindingResult]:
    """Select what no silent measure makes up for: doubtful findings first, then blind ones."""
    tested = [f for f in _tested(findings) if f.leaked != Leaked.NOT_MEASURED]
    spoken = aims([f for f in tested if f.leaked == Leaked.NONE_FOUND])
    rest = [f for f in tested if f.leaked != Leaked.NONE_FOUND]
    against = [f for f in rest if _is_doubtful(f) or aims([f]) - spoken]
    return sorted(against, key=_is_doubtful, reverse=True)


def _is_doubtful(finding: FindingResult) -> bool:
    return not is_blind(finding) or is_grey(finding) or is_open_exhibit(finding)


def aims(findings: Sequence[FindingResult]) -> set[tuple[str, str]]:
    """Name each attack with each kind of secret that it tests."""
    return {(f.attack, kind) for f in findings for kind in f.kinds or ("",)}


def is_blind(finding: FindingResult) -> bool:
    """Return whether a finding is inconclusive for want of sight or reach alone.

    It says nothing about its kinds, and another measure of the same attack may.
    """
    silence = finding.silence
    if finding.leaked != Leaked.INCONCLUSIVE or silence is None:
        return False
    unseen = Shown.NOT_SHOWN in (silence.sight.state, silence.reach.state)
    return silence.contact.shown and unseen


def is_open_exhibit(finding: FindingResult) -> bool:
    """Return whether an exhibit leaves open what leaked: a copy was seen, and no base is known."""
    return finding.exhibit is not None and finding.exhibit.nats is None and bool(finding.k)


def leak_p(finding: Measurement) -> float | None:
    """Return the smaller adjusted p-value of a finding's test and of its guesses."""
    known = [p for p in (finding.adjusted_p, finding.guesses_p) if p is not None]
    return min(known, default=None)


def is_grey(finding: Measurement) -> bool:
    """Return whether a finding is neither a leak nor silence, whatever the others are.

    What other looks make too little for a leak is not silence for that.
    """
    p = leak_p(finding)
    alone = p if finding.look_p is None else finding.look_p
    return p is not None and alone is not None and p > LEVEL and alone <= GREY
