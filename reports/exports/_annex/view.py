"""A run as the rows see it: its audited releases by name, and where their evidence stands."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field

from audit.results.schema import ReleaseResult, Results
from reports._content import claims, summary, wording
from reports._content.releases import NamedRelease, named, settings, worst
from reports.exports._annex import rows
from reports.exports._annex.document import Answer, Fact, Figure, Place

MOST = 12  # releases that are shown row by row
_REPORT = "report.html"
_SECTIONS = {
    "promised": "What was promised",
    "tested": "What was tested",
    "untested": "What was not tested",
    "again": "How to reproduce",
    "epsilon": "Empirical ε beside claimed ε",
    "warnings": "Warnings",
    "cost": "Cost and environment",
}


One = NamedRelease  # an audited one, in the rows


@dataclass(frozen=True)
class Evidence:
    """Evidence that a run gives for one row. note: why it shows nothing, or what it leaves open."""

    answer: Answer
    facts: list[Fact] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    note: str = ""


def name_of(label: str) -> str:
    """Return the attack that a label names, without its settings: `extraction:generations=3000`."""
    return label.partition(":")[0]


@dataclass(frozen=True)
class View:
    """Results in visible text. releases: of a sweep, its settings over all seeds."""

    results: Results
    releases: list[ReleaseResult]

    @classmethod
    def of(cls, results: Results) -> View:
        """View results whose strings are visible."""
        return cls(results, settings(results))

    @functools.cached_property
    def audited(self) -> list[One]:
        """All releases that are not references."""
        return [one for one in named(self.releases) if not one.release.reference]

    @functools.cached_property
    def shown(self) -> list[One]:
        """Those that are shown row by row: refuted claims first, then leaks, be it to insiders."""
        return worst(self.audited, MOST)

    @functools.cached_property
    def known(self) -> dict[str, rows.Known]:
        """The attacks of this version."""
        return rows.attacks()

    def knows(self, label: str) -> rows.Known | None:
        """Find the attack of a label, under any settings; None for one of another package."""
        return self.known.get(name_of(label))

    @property
    def partial(self) -> bool:
        """Return whether the run did not finish."""
        return self.results.status == "partial"

    @property
    def planned(self) -> list[str]:
        """Name of the attacks of the plan."""
        return [str(attack["name"]) for attack in self.results.plan.get("attacks", [])]

    def sections(self, *fragments: str) -> list[Place]:
        """Name sections of the report; the one of ε only where there are bounds to show."""
        bounds = any(map(claims.is_shown, self.releases))
        there = [f for f in fragments if f != "epsilon" or bounds]
        return [Place(title=_SECTIONS[f], target=f"{_REPORT}#{f}") for f in there]

    def sections_of(self, attacks: Iterable[str]) -> list[Place]:
        """Name the sections of attacks that have measures."""
        present = summary.attacks_of(self.releases)
        return [
            Place(
                title=f"Attacks, {wording.clip(wording.spelled(attack), 60)}",
                target=f"{_REPORT}#{summary.section(attack, self.releases)}",
            )
            for attack in dict.fromkeys(attacks)
            if attack in present
        ]

    def releases_shown(self) -> list[Place]:
        """Name the sections of the releases that are shown."""
        return [
            Place(title=f"Each release, {one.name}", target=f"{_REPORT}#{one.anchor}")
            for one in self.shown
        ]

    @property
    def elsewhere(self) -> bool:
        """Return whether the audited model was trained elsewhere."""
        return isinstance(self.results.plan.get("finished"), dict)
