"""Claimed ε beside the lower bounds on ε that the attacks showed, all in nats."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from audit.core.terms import OnClaim
from audit.results import words
from audit.results.schema import EpsilonLower, FindingResult, GuaranteeResult, ReleaseResult
from reports._content import claims, wording
from reports._content.figure import Figure
from reports._content.releases import MOST_ROWS, NamedRelease
from reports._content.table import Table, pieces
from reports._figures import canvas, rows, svg
from reports._figures.rows import Kind, Mark, Row

CLAIMED = Kind("claimed", "|", 0.65, size=14, colour=svg.INK)
BOUND = Kind("at least", ">", 0.65)
UNLIKE = Kind("at least, not comparable", ">", 0.65, fill="none")
REFUTED = Kind("claimed, refuted", "|", 0.65, size=14, colour=svg.ALARM)
_CLAIM = {
    OnClaim.REFUTED: "claim refuted",
    OnClaim.NOT_REFUTED: "claim not refuted, which proves nothing",
    OnClaim.NOT_TESTABLE: "claim not tested",
}
_CAPTION = (
    "ε of different units or kinds cannot be ranked. A bound below a claim is no proof of safety. "
    "Hollow: the bound has another unit, relation or access than the claim, or nothing is claimed; "
    "do not rank it against the claim."
)


def figures(releases: Sequence[NamedRelease]) -> Iterator[Figure]:
    """Draw a row for each release: its claim, and every bound above 0."""
    every = [one.release for one in releases]
    values = [bound.value for release in every for _, bound in claims.bounded(release)]
    values += [wording.finite(release.guarantee) or 0.0 for release in every]
    finite = [value for value in values if math.isfinite(value)]
    scale = canvas.linear(0, max(finite, default=0.0) or 1.0)
    for suffix, piece in pieces(len(releases), MOST_ROWS):
        title = f"Empirical ε beside claimed ε{suffix}"
        cells = [
            [one.name, wording.claim(one.release.guarantee), _listed(one.release)]
            for one in releases[piece]
        ]
        lines = [_row(one.release, one.name) for one in releases[piece]]
        yield Figure(
            title=title,
            caption=_CAPTION,
            alternative=f"{title}, in nats. "
            + "; ".join(f"{row[0]}: {row[1]}; bounds {row[2]}" for row in cells),
            svg=rows.draw(lines, scale, "ε in nats", f"epsilon-{piece.start}"),
            table=Table(title, ["Release", "Claimed", "Lower bounds on ε, nats"], cells),
        )


def _row(release: ReleaseResult, name: str) -> Row:
    guarantee, claimed = release.guarantee, wording.finite(release.guarantee)
    marks = [
        Mark(BOUND if _comparable(guarantee, finding, bound) else UNLIKE, bound.value)
        for finding, bound in claims.bounded(release)
    ]
    note = words.epsilon(guarantee.epsilon)
    aside = "" if release.reference else _CLAIM.get(release.claim, "")
    if claimed is not None:
        note = f"claimed {words.at_most(claimed)} per {wording.clip(guarantee.unit, 20)}"
        refuted = release.claim == OnClaim.REFUTED
        marks.insert(0, Mark(REFUTED if refuted else CLAIMED, claimed))
    return Row(name, note, release.reference, marks, aside=aside)


def _comparable(guarantee: GuaranteeResult, finding: FindingResult, bound: EpsilonLower) -> bool:
    if finding.claim == OnClaim.REFUTED:
        return True
    promised = wording.finite(guarantee) is not None
    alike = promised and not claims.difference(guarantee, bound)
    return alike and not finding.stronger_than_release


def _listed(release: ReleaseResult) -> str:
    values = sorted((bound.value for _, bound in claims.bounded(release)), reverse=True)
    largest = ", ".join(map(words.at_least, values[:6])) or "none above 0"
    return f"{largest} and {len(values) - 6} smaller" if len(values) > 6 else largest
