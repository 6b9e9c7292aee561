"""Sight of trainings of one's own: what a measure found in the same models without protection.

A measure counts for itself alone. Its leak in a positive control shows nothing of another measure,
and nothing of more tries, of other access or of more people than the control had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from audit.core.guarantee import Guarantee
from audit.findings.rejections import Family
from audit.findings.shows import Shows, not_shown, shown
from audit.findings.verdict import judge
from audit.results.labels import ELSEWHERE
from audit.results.measurement import FindingResult, Measurement
from audit.results.silence import Link

_LEAKED = "The undefended model leaked by this measure"
BY_CONTROL = f"{_LEAKED}."


class Named(NamedTuple):
    """A release of a run, as its results name it."""

    defense: str
    role: str
    reference: bool


def is_served(parameters: Mapping[str, Any]) -> bool:
    """Return whether a release with these parameters is behind an endpoint."""
    return "served_sha256" in parameters


def leaks_beside(
    place: int, releases: Sequence[Named], leaks: Callable[[int], Sequence[FindingResult]]
) -> list[FindingResult] | None:
    """Collect the leaks of the positive controls of a release; None where no release is `none`.

    Controls are its own models, unprotected, which follow it, and `none`; of two `none` the
    reference. A model that was trained elsewhere has none: what leaks of one that is trained here
    says nothing of its weights, or of its endpoint. leaks: of the release at a place.
    """
    if releases[place].defense == ELSEWHERE:
        return []
    plain = [i for i, one in enumerate(releases) if one.defense == "none"]
    if not plain:
        return None
    after = releases[place + 1 : place + 2]
    own = bool(after) and after[0].role == f"positive control of {releases[place].defense}"
    controls = [*([place + 1] if own else []), min(plain, key=lambda i: not releases[i].reference)]
    return [leak for control in controls for leak in leaks(control)]


def leaks_in(
    measurements: Sequence[Measurement], guarantee: Guarantee, family: Family
) -> tuple[FindingResult, ...]:
    """Find the leaks of a positive control, which need nothing shown."""
    found = judge(measurements, guarantee, Shows(), family)
    return tuple(f for f in found if f.leaked.detected)


def sight_by(
    leaks: Iterable[FindingResult], measurements: Sequence[Measurement]
) -> dict[tuple[str, str], Link]:
    """Show for each measurement whether the same measure leaked in a positive control.

    leaks: of all controls of the release, in order; the first that shows it is named.
    """
    seen: dict[tuple[str, str], list[FindingResult]] = {}
    for leak in leaks:
        seen.setdefault((leak.attack, leak.metric), []).append(leak)
    sight = {}
    for one in measurements:
        name = (one.attack, one.metric)
        links = [_link(leak, one) for leak in seen.get(name, ())]
        if links:
            sight[name] = next((link for link in links if link.shown), links[0])
    return sight


def _link(leak: FindingResult, one: Measurement) -> Link:
    if leak.access != one.access:
        access = f"{_LEAKED} with {leak.access} access, not with {one.access} access."
        return not_shown(access, leak.n)
    for what, there, here in _sizes(leak, one):
        if there < here:
            fewer = f"{_LEAKED} with {there} {what}, fewer than the {here} here."
            return not_shown(fewer, leak.n)
    return shown(BY_CONTROL, leak.n)


def _sizes(leak: Measurement, one: Measurement) -> list[tuple[str, int, int]]:
    """List what the control needs as many of, with its own and the release's number."""
    sizes = [("observations", leak.n, one.n)]
    for what, there, here in zip(("people in", "people out"), leak.sizes, one.sizes, strict=False):
        sizes.append((what, there, here))
    if leak.control is not None and one.control is not None:
        sizes.append(("observations of people out", leak.control.n, one.control.n))
    return sizes
