"""States once what a prediction service could not be asked, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from audit.core.terms import Leaked
from audit.results import words
from audit.results.schema import ReleaseResult


def sentences(releases: Sequence[ReleaseResult], names: Sequence[str]) -> Iterator[str]:
    """Yield one sentence for each audited service whose budget ended before an attack did."""
    for release, name in zip(releases, names, strict=True):
        budget = max((s.budget for s in release.sessions if s.budget is not None), default=None)
        cut = _cut_short(release)
        if release.reference or budget is None or not cut:
            continue
        count = words.count(cut, "measure was", "measures were")
        yield (
            f"{name}: {count} not made, because a session answers at most "
            f"{words.integer(budget)} queries{_stopped(release)}. A larger budget, or fewer "
            "planted users, would let them be made."
        )


def _cut_short(release: ReleaseResult) -> int:
    """Count the measures without a value and without an answer, in a session with a budget."""
    ended = {s.purpose for s in release.sessions if s.budget is not None}
    left = (f for f in release.findings if f.leaked == Leaked.NOT_MEASURED and f.attack in ended)
    return sum(finding.value is None and finding.n == 0 for finding in left)


def _stopped(release: ReleaseResult) -> str:
    """Describe how early its budget of ε ended a session, if it did."""
    stops = [s.answered for s in release.sessions if s.stopped_at is not None]
    return f", and its ε ended the shortest after {words.integer(min(stops))}" if stops else ""
