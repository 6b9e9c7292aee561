"""Chooses the releases that are shown where not all fit: the worst by their badge."""

from __future__ import annotations

from collections.abc import Sequence

from audit.results import badge
from audit.results.badge import Badge
from audit.results.schema import ReleaseResult

MOST_ROWS = 12  # of one drawing


def rank(release: ReleaseResult) -> int:
    """Order releases by their badge, the worst first."""
    return badge.of_release(release).rank


def is_bad(release: ReleaseResult) -> bool:
    """Return whether a release leaks to anybody, or its claim is refuted."""
    return rank(release) < Badge.INCONCLUSIVE.rank


def worst(releases: Sequence[ReleaseResult], most: int) -> list[int]:
    """Choose the places of at most `most` releases, the audited first; in their order."""
    ranked = sorted(range(len(releases)), key=lambda i: (releases[i].reference, rank(releases[i])))
    return sorted(ranked[:most])
