"""Chooses the finding that stands for an attack, in the headline, the table and the picture alike.

Whoever quotes an attack by one measure must not show a quiet one where another is worse or open.
"""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.terms import Leaked, OnClaim
from audit.results.schema import FindingResult


def quoted(findings: Sequence[FindingResult]) -> FindingResult:
    """Pick the finding that an attack is quoted by; of equals the first.

    In this order: a refutation; a measured value; what the release itself gives; a leak; an open
    measure; no leak found.
    """
    return min(findings, key=_standing)


def is_open(finding: FindingResult) -> bool:
    """Return whether a measure was made and tested, and remains inconclusive."""
    tested = finding.value is not None and finding.p_value is not None
    return tested and finding.leaked == Leaked.INCONCLUSIVE


def _standing(finding: FindingResult) -> tuple[bool, ...]:
    return (
        finding.claim != OnClaim.REFUTED,
        finding.value is None and finding.leaked != Leaked.LEAK,
        finding.stronger_than_release,
        finding.leaked != Leaked.LEAK,
        not is_open(finding),
        finding.leaked != Leaked.NONE_FOUND,
    )
