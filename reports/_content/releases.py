"""Releases as all formats show them: in visible text, under their names, the worst chosen first.

A setting of a sweep is shown as a release that has the measures of its cell, so that page one, the
tables and the figures of a sweep are those of a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit.core.visible import each_text, visible
from audit.results import badge
from audit.results.badge import Badge
from audit.results.schema import Cell, Cost, FindingResult, ReleaseResult, Results
from reports._content import wording

MOST_ROWS = 12  # of one drawing
_OUTCOMES = re.compile("[-01]*")  # of as many secrets as were planted
_COMMAND = 100_000  # characters of a command: a sweep's names each of its settings


@dataclass(frozen=True)
class NamedRelease:
    """A release under its name. anchor: fragment of its section of the report."""

    release: ReleaseResult
    name: str
    anchor: str


def inert(results: Results) -> Results:
    """Make every string of the results visible; all formats start from this."""
    made_again = visible(results.reproduce, _COMMAND)
    document = each_text(results.model_dump(), _visible)
    return Results.model_validate({**document, "reproduce": made_again})


def _visible(text: str) -> str:
    """Make a text visible. Outcomes are kept: cut like a long text, they would be none."""
    return text if _OUTCOMES.fullmatch(text) else visible(text)


def shown(results: Results) -> list[NamedRelease]:
    """List the releases of a run, or the settings of a sweep."""
    return named(settings(results))


def named(releases: Sequence[ReleaseResult], run: str = "", first: int = 0) -> list[NamedRelease]:
    """Name releases. run, first: of two runs, what begins the names, and the place of the first."""
    return [
        NamedRelease(release, f"{run}{name}", f"release-{place}")
        for place, (release, name) in enumerate(
            zip(releases, labels(releases), strict=True), first + 1
        )
    ]


def labels(releases: Sequence[ReleaseResult]) -> list[str]:
    """Name each release by its defense and by what sets it apart within that defense."""
    return [_label(release, releases) for release in releases]


def _label(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> str:
    parts = [f"{k}={wording.setting(v)}" for k, v in differing(release, releases).items()]
    seeds = {other.seed for other in releases if other.defense == release.defense}
    parts += [f"seed={release.seed}"] if len(seeds) > 1 else []
    return wording.clip(" ".join([release.defense, *parts]), 80)


def differing(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> dict[str, Any]:
    """Choose the parameters of a release in which the releases of its defense differ."""
    alike = [other.parameters for other in releases if other.defense == release.defense]
    return {
        key: value
        for key, value in release.parameters.items()
        if len({repr(other.get(key)) for other in alike}) > 1
    }


def setting_labels(releases: Sequence[ReleaseResult], *without: str) -> list[str]:
    """Name each setting by its defense and the parameters in which its settings differ.

    without: parameters that are not named.
    """
    named = []
    for release in releases:
        parts = [
            f"{'ε' if key == 'epsilon' else key} = {wording.setting(value)}"
            for key, value in differing(release, releases).items()
            if key not in without
        ]
        named.append(wording.clip(" ".join([release.defense, ", ".join(parts)]).strip(), 60))
    return named


def settings(results: Results) -> list[ReleaseResult]:
    """List the releases of a run; of a sweep, a release for each cell.

    It has the weakest promise of its seeds, and all their sessions and costs.
    """
    if results.sweep is None:
        return results.releases
    return [_setting(results, cell) for cell in results.sweep.cells]


def cells_of(results: Results) -> list[Cell | None]:
    """Find the setting that each release of a sweep is a seed of; None for those of a run."""
    cells = [] if results.sweep is None else results.sweep.cells
    found = {place: cell for cell in cells for place in cell.releases}
    return [found.get(place) for place in range(len(results.releases))]


def seeds_of(results: Results) -> list[int]:
    """Count the seeds behind each of the settings."""
    if results.sweep is None:
        return [1] * len(results.releases)
    return [len(cell.releases) for cell in results.sweep.cells]


def _setting(results: Results, cell: Cell) -> ReleaseResult:
    releases = [results.releases[i] for i in cell.releases]
    weakest = max(releases, key=_promised)
    several = len(releases) > 1
    sessions = [
        s.model_copy(update={"purpose": f"{s.purpose}, seed {r.seed}"}) if several else s
        for r in releases
        for s in r.sessions
    ]
    answers = ("utility", "findings", "leaked", "claim", "silence")
    costs = {name: sum(getattr(r.cost, name) for r in releases) for name in Cost.model_fields}
    return weakest.model_copy(
        update={
            "seed": releases[0].seed,
            "sessions": sessions,
            "cost": Cost(**costs),
            **{name: getattr(cell, name) for name in answers},
        }
    )


def _promised(release: ReleaseResult) -> float:
    epsilon = release.guarantee.epsilon
    return math.inf if epsilon is None else epsilon


def by_attack(release: ReleaseResult) -> dict[str, list[FindingResult]]:
    """Sort the findings of a release by attack, each setting of one by itself."""
    found: dict[str, list[FindingResult]] = {}
    for finding in release.findings:
        found.setdefault(finding.attack, []).append(finding)
    return found


def rank(release: ReleaseResult) -> int:
    """Order releases by their badge, the worst first."""
    return badge.of_release(release).rank


def is_bad(release: ReleaseResult) -> bool:
    """Return whether a release leaks to anybody, or its claim is refuted."""
    return rank(release) < Badge.INCONCLUSIVE.rank


def worst(releases: Sequence[NamedRelease], most: int) -> list[NamedRelease]:
    """Choose at most `most` releases, the audited first, then the worst; in their order."""
    order = sorted(releases, key=lambda one: (one.release.reference, rank(one.release)))
    chosen = {one.anchor for one in order[:most]}
    return [one for one in releases if one.anchor in chosen]
