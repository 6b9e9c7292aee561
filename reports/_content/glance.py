"""A run at a glance: its headline and a line a release, of a bounded length whatever its size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.visible import visible
from audit.results import badge, quoting, words
from audit.results.schema import ReleaseResult, Results
from reports._content import claims, wording
from reports._content.releases import is_bad, shown, worst
from reports._content.table import Table

MOST_LINES = 10
_HEADLINE, _CELL = 700, 60  # characters
_NBSP = "\N{NO-BREAK SPACE}"
_HEAD = [
    "Release",
    "Claimed ε, nats",
    "Leaked",
    "Claim",
    "Largest bound on ε, nats",
    "Perplexity [interval]",
]


@dataclass(frozen=True)
class Glance:
    """Content of a glance: verdict, headline, a row a release, and how many have none."""

    badge: str
    headline: str
    table: Table
    rest: str


def glance(results: Results) -> Glance:
    """Build the rows of a run, or of a sweep's settings. Every string is visible text."""
    releases = shown(results)
    chosen = worst(releases, MOST_LINES)
    table = Table("", _HEAD, [_row(one.release, one.name) for one in chosen])
    there = {one.anchor for one in chosen}
    left = [one.release for one in releases if one.anchor not in there]
    return Glance(badge.line(results), _headline(results), table, _rest(left))


def text(results: Results) -> str:
    """Write a run at a glance for a terminal."""
    seen = glance(results)
    rows = [f"  {row.replace(_NBSP, ' ')}" for row in seen.table.lines] if seen.table.rows else []
    return "\n".join(filter(None, [seen.badge, seen.headline, *rows, seen.rest]))


def _headline(results: Results) -> str:
    start = "The run is not complete. " if results.status == "partial" else ""
    return start + wording.sentences(visible(" ".join(results.headline)), _HEADLINE)


def _rest(left: Sequence[ReleaseResult]) -> str:
    if not left:
        return ""
    bad = sum(map(is_bad, left))
    of_them = f", {bad} of them with a leak or a refuted claim" if bad else ""
    return f"… and {len(left)} more{of_them}"


def _row(release: ReleaseResult, name: str) -> list[str]:
    cells = (
        name,
        _claimed(release),
        quoting.leaked_of(release),
        str(release.claim),
        _found(release),
        wording.value(release.utility.get("perplexity")),
    )
    return [wording.clip(visible(cell), _CELL) for cell in cells]


def _claimed(release: ReleaseResult) -> str:
    claim = release.guarantee
    if claim.epsilon is None or math.isinf(claim.epsilon):
        return words.epsilon(claim.epsilon)
    return f"{words.epsilon(claim.epsilon)} {wording.per_unit(claim.unit, claim.relation)}"


def _found(release: ReleaseResult) -> str:
    """Write the largest lower bound on ε that an attack showed, and of how many."""
    found = claims.largest(release)
    if found is None:
        return "none above 0"
    finding, bound = found
    scope = wording.per_unit(bound.unit, bound.relation)
    every = sum(one.epsilon_lower is not None for one in release.findings)
    of = f", of {every}" if every > 1 else ""
    inside = ", insiders" if finding.stronger_than_release else ""
    return f"≥ {words.at_least(bound.value)} {scope}{of}{inside}"
