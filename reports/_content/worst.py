"""Chooses the releases that are shown where not all fit: refuted claims, then leaks."""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.terms import OnClaim
from audit.results.schema import ReleaseResult

MOST_ROWS = 12  # of one drawing


def rank(release: ReleaseResult) -> int:
    """Order releases, the worst first: a refuted claim, then a leak to anybody, then the rest."""
    if release.claim == OnClaim.REFUTED:
        return 0
    leaks = release.leaked.detected or any(f.leaked.detected for f in release.findings)
    return 1 if leaks else 2


def worst(releases: Sequence[ReleaseResult], most: int) -> list[int]:
    """Choose the places of at most `most` releases, the audited first; in their order."""
    ranked = sorted(range(len(releases)), key=lambda i: (releases[i].reference, rank(releases[i])))
    return sorted(ranked[:most])
