"""The releases that a rule of the policy applies to, and the failure of a rule without any."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from audit.gate.outcome import Check, State
from audit.results.schema import ReleaseResult

Releases = Sequence[tuple[str, ReleaseResult]]  # (label, release)


def matching(releases: Releases, pattern: str) -> Releases:
    """Return the releases whose defense matches the pattern."""
    return [one for one in releases if fnmatchcase(one[1].defense, pattern)]


def unmatched(rule: str, pattern: str, subject: str, line: int | None, what: str = "") -> Check:
    """Return the failure of a rule that matches nothing: its pattern may be misspelt."""
    sentence = what or f"no audited release matches {pattern}"
    return Check(rule, pattern, subject, State.FAIL, sentence, line)
