"""The section of each attack: all its measures, release beside release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.terms import OnClaim
from audit.results import words
from audit.results.schema import FindingResult
from reports._content import verdicts, wording
from reports._content.releases import NamedRelease
from reports._content.summary import Value, attacks_of, section, with_count
from reports._content.table import pieces

MOST_RELEASES = 5
MOST_OPEN = 6  # measures of a table that may stand open
STRONGER = "†"
MASK = "•••••"  # in place of what was generated

Kind = tuple[str, str]  # metric, unit


@dataclass(frozen=True)
class Head:
    """One release at the top of its column."""

    name: str
    role: str
    anchor: str


@dataclass(frozen=True)
class Cell:
    """A measure of one release with its controls and answers; empty where it was not taken.

    claim: only where the claim is refuted.
    """

    measured: Value
    controls: list[str]
    leaked: str
    claim: str
    mark: str


@dataclass(frozen=True)
class Line:
    """One measure of the attack, over the releases of its matrix."""

    measure: str
    unit: str
    cells: list[Cell]


@dataclass(frozen=True)
class Matrix:
    """A table of as many releases as fit beside each other."""

    caption: str
    heads: list[Head]
    lines: list[Line]


@dataclass(frozen=True)
class Attack:
    """All that one attack measured.

    tally: of the audited releases. open: whether these hold a leak, a refutation or an open
    answer, and its table is short.
    """

    name: str
    anchor: str
    tally: str
    open: bool
    note: str
    matrices: list[Matrix]
    examples: list[str]


def attacks(shown: Sequence[NamedRelease]) -> list[Attack]:
    """List the attacks of a run, each with the audited releases before the references."""
    releases = [one.release for one in shown]
    order = sorted(shown, key=lambda one: one.release.reference)
    return [_attack(name, section(name, releases), order) for name in attacks_of(releases)]


def _attack(attack: str, anchor: str, releases: Sequence[NamedRelease]) -> Attack:
    tables = {
        one.anchor: {(f.metric, f.unit): f for f in one.release.findings if f.attack == attack}
        for one in releases
    }
    pairs = [pair for table in tables.values() for pair in table.items()]
    kinds = dict.fromkeys(kind for kind, _ in pairs)
    title = wording.spelled(attack)
    measured = {k for k, f in pairs if f.value is not None or f.leaked.detected}
    matrices = []
    for suffix, piece in pieces(len(releases) if measured else 0, MOST_RELEASES):
        beside = releases[piece]
        heads = [Head(one.name, wording.clip(one.release.role, 60), one.anchor) for one in beside]
        lines = [
            _line(attack, kind, [_cell(tables[one.anchor].get(kind)) for one in beside])
            for kind in kinds
            if kind in measured
        ]
        matrices.append(Matrix(f"{title}, by release{suffix}", heads, lines))
    notes = []
    if any(finding.stronger_than_release for _, finding in pairs):
        notes.append(f"{STRONGER} Read with more than the release gives: no evidence on its claim.")
    if missing := [wording.metric(attack, kind[0]) for kind in kinds if kind not in measured]:
        notes.append(f"Not measured on any release: {', '.join(missing)}.")
    audited = [
        f
        for one in releases
        for f in one.release.findings
        if f.attack == attack and not one.release.reference
    ]
    return Attack(
        name=title,
        anchor=anchor,
        tally=verdicts.tally(audited),
        open=any(map(verdicts.alarming, audited)) and len(measured) <= MOST_OPEN,
        note=" ".join(notes),
        matrices=matrices,
        examples=_examples(releases, attack),
    )


def _examples(releases: Sequence[NamedRelease], attack: str) -> list[str]:
    """Show what each audited release gave away, else what the first control did, and no leak."""
    planted: dict[str, list[str]] = {}
    other: list[str] = []
    for one in releases:
        for finding in one.release.findings if not (planted and one.release.reference) else ():
            for example in finding.examples if finding.attack == attack else ():
                what = "a planted value" if example.planted else "no planted value"
                of = f"generation {example.generation + 1} of {finding.n}"
                line = f"{one.name}, {of}: “{example.prompt}{MASK}”, {what}."
                (planted.setdefault(one.name, []) if example.planted else other).append(line)
    return [line for lines in planted.values() for line in lines] + other[:1]


def _line(attack: str, kind: Kind, cells: list[Cell]) -> Line:
    measure, unit = wording.metric(attack, kind[0]), kind[1]
    named = measure.split(" ")[-1] == unit  # as in "loss AUC"
    return Line(measure, "" if named else unit, cells)


def _cell(finding: FindingResult | None) -> Cell:
    if finding is None:
        return Cell(Value("—"), [], "", "", "")
    value, ci, unit = finding.value, finding.ci, finding.unit
    measured = Value("")
    if value is not None:
        measured = Value(
            words.estimate(value, ci, unit), with_count(words.interval(ci, unit), finding.n)
        )
    sides = {"twins": finding.control, "blind": finding.blind}
    controls = [f"{word} {wording.beside(side, unit)}" for word, side in sides.items() if side]
    mark = STRONGER if finding.stronger_than_release else ""
    claim = verdicts.claim(finding) if finding.claim == OnClaim.REFUTED else ""
    return Cell(measured, controls, verdicts.leaked(finding), claim, mark)
