"""Where a measure lies between chance and certain, so that one scale holds every attack."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from audit.core.terms import OnClaim
from audit.results import quoting, words
from audit.results.schema import FindingResult, ReleaseResult
from audit.results.words import Bounds
from reports._content import verdicts

Scale = Callable[[float], float]


@dataclass(frozen=True)
class Strip:
    """A value between 0, chance, and 1, certain. mark: the word whose shape it has; "": a bar.

    interval, twins: their ends. undefended: the same measure of the undefended model.
    """

    mark: str
    value: float
    interval: Bounds | None
    twins: Bounds | None
    undefended: float | None


def strip(finding: FindingResult, undefended: ReleaseResult | None) -> Strip | None:
    """Place a finding on the scale; None where it has no value, or its unit has no such scale."""
    scale = _scale(finding)
    if scale is None or finding.value is None:
        return None
    refuted = finding.claim == OnClaim.REFUTED
    beside = [f.value for f in quoting.alike(finding, undefended) if f.value is not None]
    twins = finding.control
    return Strip(
        mark=verdicts.claim(finding) if refuted else verdicts.leaked(finding),
        value=scale(finding.value),
        interval=_ends(finding.ci, scale, finding),
        twins=None if twins is None else _ends(twins.ci, scale, finding),
        undefended=scale(beside[0]) if beside else None,
    )


def _scale(finding: FindingResult) -> Scale | None:
    """Return the map of a measure to the share of the way from chance to certain."""
    low, high = finding.chance or 0.0, 1.0
    if _is_area(finding):
        return lambda value: _within(2 * abs(value - 0.5))  # below one half is as far from chance
    if finding.unit == "bits":
        high = math.log2(finding.space) if finding.space and finding.space > 1 else low
    elif not words.is_share(finding.unit):
        return None
    return None if high <= low else lambda value: _within((value - low) / (high - low))


def _is_area(finding: FindingResult) -> bool:
    return finding.unit in ("AUC", "area under the curve")


def _within(value: float) -> float:
    return min(1.0, max(0.0, value))


def _ends(bounds: Bounds | None, scale: Scale, finding: FindingResult) -> Bounds | None:
    if bounds is None:
        return None
    low, high = sorted((scale(bounds[0]), scale(bounds[1])))
    across = _is_area(finding) and bounds[0] < 0.5 < bounds[1]
    return (0.0 if across else low), high
