"""A run at a glance: its headline and a line a release, of a bounded length whatever its size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from audit.core.visible import visible
from audit.results import badge, quoting, words
from audit.results.schema import Measure, ReleaseResult, Results
from reports._content import claims, page, sweep, wording
from reports._content.worst import is_bad, worst

MOST_LINES = 10
_HEADLINE, _CELL = 700, 60  # characters
_NBSP = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Line:
    """One release, or one setting of a sweep: what was promised, and what it leaked and cost.

    found: the largest lower bound on ε that an attack showed.
    """

    name: str
    claimed: str
    leaked: str
    claim: str
    found: str
    perplexity: str


HEAD = Line(
    "Release", "Claimed ε, nats", "Leaked", "Claim", "Found ε, nats", "Perplexity [interval]"
)


@dataclass(frozen=True)
class Glance:
    """Content of a glance: verdict, headline, a line a release, and how many have none."""

    badge: str
    headline: str
    lines: list[Line]
    rest: str


def glance(results: Results) -> Glance:
    """Build the lines of a run, or of a sweep's settings. Every string is visible text."""
    releases = views(results)
    names, places = page.labels(releases), worst(releases, MOST_LINES)
    lines = [_line(releases[i], names[i]) for i in places]
    left = [release for i, release in enumerate(releases) if i not in places]
    return Glance(badge.line(results), _headline(results), lines, _rest(left))


def views(results: Results) -> list[ReleaseResult]:
    """List what has a line: the releases of a run, or the settings of a sweep over its seeds."""
    if results.sweep is None:
        return results.releases
    return sweep.settings(results, results.sweep)


def text(results: Results) -> str:
    """Write a run at a glance for a terminal."""
    seen = glance(results)
    table = [_cells(line) for line in [HEAD, *seen.lines]]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rows = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table] if seen.lines else []
    return "\n".join(
        filter(None, [seen.badge, seen.headline, *(f"  {row}" for row in rows), seen.rest])
    )


def _cells(line: Line) -> list[str]:
    return [str(getattr(line, column.name)).replace(_NBSP, " ") for column in fields(line)]


def _headline(results: Results) -> str:
    start = "The run is not complete. " if results.status == "partial" else ""
    return start + wording.sentences(visible(" ".join(results.headline)), _HEADLINE)


def _rest(left: Sequence[ReleaseResult]) -> str:
    if not left:
        return ""
    bad = sum(map(is_bad, left))
    of_them = f", {bad} of them with a leak or a refuted claim" if bad else ""
    return f"… and {len(left)} more{of_them}"


def _line(release: ReleaseResult, name: str) -> Line:
    cells = (
        name,
        _claimed(release),
        quoting.leaked_of(release),
        str(release.claim),
        _found(release),
        _perplexity(release.utility.get("perplexity")),
    )
    return Line(*(wording.clip(visible(cell), _CELL) for cell in cells))


def _claimed(release: ReleaseResult) -> str:
    claim = release.guarantee
    if claim.epsilon is None or math.isinf(claim.epsilon):
        return words.epsilon(claim.epsilon)
    return f"{words.epsilon(claim.epsilon)} {wording.per_unit(claim.unit, claim.relation)}"


def _found(release: ReleaseResult) -> str:
    bounds = [bound for _, bound in claims.bounded(release)]
    if not bounds:
        return "no bound above 0"
    largest = max(bounds, key=lambda bound: bound.value)
    scope = wording.per_unit(largest.unit, largest.relation)
    return f"≥ {words.at_least(largest.value)} {scope}"


def _perplexity(measure: Measure | None) -> str:
    if measure is None:
        return words.measured(None, None, "")
    return words.measured(measure.value, measure.ci, measure.unit)
