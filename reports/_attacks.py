"""The section of each attack: every measure it took, release beside release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.results.schema import Control, FindingResult, ReleaseResult
from reports import _words
from reports._figure import pieces
from reports._summary import Value, anchor

MOST_RELEASES = 5
STRONGER = "†"

Kind = tuple[str, str]  # metric, unit


@dataclass(frozen=True)
class Head:
    """One release at the top of its column."""

    name: str
    role: str
    anchor: str


@dataclass(frozen=True)
class Cell:
    """What one release was measured to leak, its controls, and the verdict; "" where not tried."""

    measured: Value
    controls: list[str]
    verdict: str
    mark: str


@dataclass(frozen=True)
class Line:
    """One measure of the attack, over the releases of its matrix."""

    measure: str
    unit: str
    cells: list[Cell]


@dataclass(frozen=True)
class Matrix:
    """As many releases as fit beside each other."""

    caption: str
    heads: list[Head]
    lines: list[Line]


@dataclass(frozen=True)
class Attack:
    """All an attack measured."""

    name: str
    note: str
    matrices: list[Matrix]


def attacks(releases: Sequence[ReleaseResult], names: Sequence[str]) -> list[Attack]:
    """Each attack of the run, the audited releases before the references."""
    order = sorted(range(len(releases)), key=lambda i: releases[i].reference)
    found = dict.fromkeys(f.attack for release in releases for f in release.findings)
    return [_attack(name, releases, names, order) for name in found]


def _attack(
    attack: str, releases: Sequence[ReleaseResult], names: Sequence[str], order: list[int]
) -> Attack:
    tables = {i: _by_kind(attack, releases[i]) for i in order}
    kinds = dict.fromkeys(kind for i in order for kind in tables[i])
    title = _words.words(attack)
    found = [(kind, finding) for table in tables.values() for kind, finding in table.items()]
    measured = {kind for kind, finding in found if finding.value is not None}
    matrices = []
    for suffix, piece in pieces(len(order), MOST_RELEASES):
        shown = order[piece]
        heads = [Head(names[i], _words.clip(releases[i].role, 60), anchor(i)) for i in shown]
        lines = [
            _line(attack, kind, [tables[i].get(kind) for i in shown])
            for kind in kinds
            if kind in measured
        ]
        matrices.append(Matrix(f"{title}, by release{suffix}", heads, lines))
    notes = []
    if any(finding.stronger_than_release for _, finding in found):
        notes.append(f"{STRONGER} Read with more than the release gives: no evidence on its claim.")
    if missing := [_words.metric(attack, kind[0]) for kind in kinds if kind not in measured]:
        notes.append(f"Not measured on any release: {', '.join(missing)}.")
    return Attack(title, " ".join(notes), [matrix for matrix in matrices if matrix.lines])


def _line(attack: str, kind: Kind, findings: Sequence[FindingResult | None]) -> Line:
    measure, unit = _words.metric(attack, kind[0]), kind[1]
    told = measure.split(" ")[-1] == unit  # as in "loss AUC"
    return Line(measure, "" if told else unit, [_cell(finding) for finding in findings])


def _by_kind(attack: str, release: ReleaseResult) -> dict[Kind, FindingResult]:
    found: dict[Kind, FindingResult] = {}
    for finding in release.findings:
        if finding.attack == attack:
            found.setdefault((finding.metric, finding.unit), finding)
    return found


def _cell(finding: FindingResult | None) -> Cell:
    if finding is None:
        return Cell(Value("—", ""), [], "", "")
    text = "" if finding.value is None else _words.quantity(finding.value, finding.unit)
    bounds = _words.interval(finding.ci, finding.unit) if text else ""
    sides = [("twins", finding.control), ("blind", finding.blind)]
    controls = [told for word, side in sides if (told := _control(word, side, finding.unit))]
    mark = STRONGER if finding.stronger_than_release else ""
    return Cell(Value(text, bounds), controls, finding.verdict, mark)


def _control(word: str, control: Control | None, unit: str) -> str:
    if control is None:
        return ""
    return f"{word} {_words.measured(control.value, control.ci, unit)}"
