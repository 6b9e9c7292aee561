"""Chooses the finding that stands for an attack, in the headline, the table and the picture alike.

Whoever quotes an attack by one measure must not show a quiet one where another is worse or open.
"""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.terms import Leaked, OnClaim
from audit.results.joined import leaked_overall
from audit.results.schema import Cell, FindingResult, ReleaseResult


def quoted(findings: Sequence[FindingResult]) -> FindingResult:
    """Pick the finding that an attack is quoted by; of equals the first.

    In this order: a refutation; a measured value; what the release itself gives; a leak; an open
    measure; no leak found. An open measure that is only blind does not stand for an attack whose
    other measures found no leak where it would have been found.
    """
    loud = any(f.claim == OnClaim.REFUTED for f in findings)
    if not loud and leaked_overall(findings) == Leaked.NONE_FOUND:
        own = (f for f in findings if not f.stronger_than_release)
        return next(f for f in own if f.leaked == Leaked.NONE_FOUND)
    return min(findings, key=_standing)


def alike(finding: FindingResult, release: ReleaseResult | None) -> list[FindingResult]:
    """List the findings of another release by the same measure."""
    same = (finding.attack, finding.metric, finding.unit)
    return [
        f for f in (release.findings if release else ()) if (f.attack, f.metric, f.unit) == same
    ]


def leaked_of(joined: ReleaseResult | Cell) -> str:
    """Write what a release or a setting leaked, with a leak to insiders next to another word."""
    inside = any(f.leaked == Leaked.INSIDERS for f in joined.findings)
    insiders = inside and joined.leaked != Leaked.LEAK
    return f"{joined.leaked}; {Leaked.INSIDERS}" if insiders else str(joined.leaked)


def is_open(finding: FindingResult) -> bool:
    """Return whether a measure was made and tested, and remains inconclusive."""
    tested = finding.value is not None and finding.p_value is not None
    return tested and finding.leaked == Leaked.INCONCLUSIVE


def _standing(finding: FindingResult) -> tuple[bool, ...]:
    return (
        finding.claim != OnClaim.REFUTED,
        finding.value is None and not finding.leaked.detected,
        finding.stronger_than_release,
        not finding.leaked.detected,
        not is_open(finding),
        finding.leaked != Leaked.NONE_FOUND,
    )
