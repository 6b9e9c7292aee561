"""States beside a leak with what in the same run it was not found."""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.terms import Leaked
from audit.results.joined import aims
from audit.results.labels import ELSEWHERE, labels
from audit.results.schema import ReleaseResult

_SILENT, _LEAKS, _UNSHOWN = "not found in this run with", "also found with", "undecided with"


def closing(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    """State with which other audited releases the leak of a release was not found, as a sentence.

    These have "no leak found", also by each attack and for each kind of secret that leaks here. ""
    where nothing leaks, or nothing else was audited. References do not count: nobody would release
    them.
    """
    leaking = aims([f for f in release.findings if f.leaked == Leaked.LEAK])
    if release.reference or not leaking:
        return ""
    groups: dict[str, list[str]] = {_SILENT: [], _LEAKS: [], _UNSHOWN: []}
    for other, name in zip(releases, labels(releases), strict=True):
        if other is not release and not other.reference and other.defense != ELSEWHERE:
            answer = _SILENT if silent(other, leaking) else _UNSHOWN
            groups[_LEAKS if other.leaked == Leaked.LEAK else answer].append(name)
    parts = [f"{answer} {', '.join(names)}" for answer, names in groups.items() if names]
    return f"The leak: {'; '.join(parts)}." if parts else ""


def silent(release: ReleaseResult, leaking: set[tuple[str, str]]) -> bool:
    """Return whether a release has "no leak found", by these attacks for these kinds, too.

    A measure that is blind there says nothing, and another of the same attack speaks for it.
    """
    quiet = aims([f for f in release.findings if f.leaked == Leaked.NONE_FOUND])
    return release.leaked == Leaked.NONE_FOUND and leaking <= quiet
