"""The section of each attack: all its measures, release beside release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.terms import OnClaim
from audit.results import words
from audit.results.schema import Control, FindingResult, ReleaseResult
from reports._content import verdicts, wording
from reports._content.summary import Value, anchor, attacks_of, section
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


def attacks(releases: Sequence[ReleaseResult], names: Sequence[str]) -> list[Attack]:
    """List the attacks of a run, each with the audited releases before the references."""
    order = sorted(range(len(releases)), key=lambda i: releases[i].reference)
    return [_attack(name, releases, names, order) for name in attacks_of(releases)]


def _attack(
    attack: str, releases: Sequence[ReleaseResult], names: Sequence[str], order: list[int]
) -> Attack:
    tables = {i: _by_kind(attack, releases[i]) for i in order}
    kinds = dict.fromkeys(kind for i in order for kind in tables[i])
    title = wording.spelled(attack)
    pairs = [(kind, finding) for table in tables.values() for kind, finding in table.items()]
    measured = {k for k, f in pairs if f.value is not None or f.leaked.detected}
    matrices = []
    for suffix, piece in pieces(len(order), MOST_RELEASES):
        shown = order[piece]
        heads = [Head(names[i], wording.clip(releases[i].role, 60), anchor(i)) for i in shown]
        lines = [
            _line(attack, kind, [_cell(tables[i].get(kind)) for i in shown])
            for kind in kinds
            if kind in measured
        ]
        matrices.append(Matrix(f"{title}, by release{suffix}", heads, lines))
    notes = []
    if any(finding.stronger_than_release for _, finding in pairs):
        notes.append(f"{STRONGER} Read with more than the release gives: no evidence on its claim.")
    if missing := [wording.metric(attack, kind[0]) for kind in kinds if kind not in measured]:
        notes.append(f"Not measured on any release: {', '.join(missing)}.")
    filled = [matrix for matrix in matrices if matrix.lines]
    examples = _examples([releases[i] for i in order], [names[i] for i in order], attack)
    audited = [f for r in releases if not r.reference for f in r.findings if f.attack == attack]
    return Attack(
        name=title,
        anchor=section(attack, releases),
        tally=verdicts.tally(audited),
        open=any(map(verdicts.alarming, audited)) and len(measured) <= MOST_OPEN,
        note=" ".join(notes),
        matrices=filled,
        examples=examples,
    )


def _examples(releases: Sequence[ReleaseResult], names: Sequence[str], attack: str) -> list[str]:
    """Show what each audited release gave away, else what the first control did, and no leak."""
    planted: dict[str, list[str]] = {}
    other: list[str] = []
    for release, name in zip(releases, names, strict=True):
        for finding in release.findings if not (planted and release.reference) else ():
            for example in finding.examples if finding.attack == attack else ():
                what = "a planted value" if example.planted else "no planted value"
                of = f"generation {example.generation + 1} of {finding.n}"
                line = f"{name}, {of}: “{example.prompt}{MASK}”, {what}."
                (planted.setdefault(name, []) if example.planted else other).append(line)
    return [line for lines in planted.values() for line in lines] + other[:1]


def _line(attack: str, kind: Kind, cells: list[Cell]) -> Line:
    measure, unit = wording.metric(attack, kind[0]), kind[1]
    named = measure.split(" ")[-1] == unit  # as in "loss AUC"
    return Line(measure, "" if named else unit, cells)


def _by_kind(attack: str, release: ReleaseResult) -> dict[Kind, FindingResult]:
    return {(f.metric, f.unit): f for f in release.findings if f.attack == attack}


def _cell(finding: FindingResult | None) -> Cell:
    if finding is None:
        return Cell(Value("—", ""), [], "", "", "")
    value, ci, unit = finding.value, finding.ci, finding.unit
    text = "" if value is None else words.estimate(value, ci, unit)
    bounds = words.interval(finding.ci, finding.unit) if text else ""
    sides = [("twins", finding.control), ("blind", finding.blind)]
    controls = [_control(word, side, finding.unit) for word, side in sides if side is not None]
    mark = STRONGER if finding.stronger_than_release else ""
    claim = verdicts.claim(finding) if finding.claim == OnClaim.REFUTED else ""
    return Cell(Value(text, bounds), controls, verdicts.leaked(finding), claim, mark)


def _control(word: str, control: Control, unit: str) -> str:
    return f"{word} {words.measured(control.value, control.ci, unit)}"
