"""Compares two runs: what differs comes first, and what is the same takes one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.terms import OnClaim
from audit.core.visible import visible
from audit.gate import setting_changes
from audit.gate.identity import changes, key, plan_of
from audit.gate.measure_changes import Both, Change, Pair, pairs, written
from audit.results.labels import labels
from audit.results.quoting import leaked_of
from audit.results.schema import Cell, FindingResult, GuaranteeResult, ReleaseResult, Results
from audit.results.words import at_most, count

Row = tuple[str, ...]
NAMES = ("A", "B")
NOTHING = "Nothing differs."
_LEAST = 1e-15  # smaller tails of the normal law are rounded to 0


class Part(StrEnum):
    """The tables of a comparison, in their order."""

    SETTINGS = "Settings that differ"
    CLAIMS = "Claims that differ"
    ANSWERS = "Answers that changed"
    APART = "Measures told apart"
    NOT_APART = "Measures not told apart"
    ONE_ONLY = "In one run only"


NOTES = {
    Part.APART: "Intervals do not overlap, and p < 0.05 once adjusted for all measures (Holm). "
    "Whether higher is better depends on the measure.",
    Part.NOT_APART: "Intervals overlap or are missing, or p is not below 0.05 once adjusted: "
    "these runs do not show a change, and do not show that there is none.",
}


@dataclass(frozen=True)
class Section:
    """A table that has rows; every cell is printable text on one line."""

    title: Part
    columns: Row
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Comparison:
    """Differences between two runs.

    headline: the counts in one line. sections: what differs, without empty tables. same: one line.
    """

    headline: str
    sections: tuple[Section, ...]
    same: str


def compare(one: Results, other: Results, names: tuple[str, str] = NAMES) -> Comparison:
    """Compare settings, claims, answers and measures of two runs, references included.

    Two values are distinguished if their intervals do not overlap and a two-sided test,
    Holm-adjusted over all measures, rejects that nothing changed. The test is paired where both
    runs are of one plan and list the outcome of each secret; otherwise the runs count as
    independent. Releases are matched by defense, parameters and seed; the remaining ones by
    defense, in order.
    """
    both = _matched(one.releases, other.releases)
    measures = pairs(both, not changes(plan_of(one), plan_of(other)))
    differing, same_settings = setting_changes.changes(one, other)
    claims = [(name, _claim(a.guarantee), _claim(b.guarantee)) for name, a, b in both if a and b]
    claims_changed = [row for row in claims if row[1] != row[2]]
    answers = [row for name, a, b in both if a and b for row in _answers(name, a, b)]
    answers += list(_settings_of_sweeps(one, other))
    changed = [row for row in answers if row[2] != row[3]]
    by_change = {change: [p for p in measures if p.change == change] for change in Change}
    alone = [*_alone(both), *map(_measured, by_change[Change.ONE_ONLY])]
    found = (
        Section(Part.SETTINGS, ("setting", *names), tuple(differing)),
        Section(Part.CLAIMS, ("release", *names), tuple(claims_changed)),
        Section(Part.ANSWERS, ("release", "measure", *names), tuple(changed)),
        _section(Part.APART, by_change[Change.APART], names),
        _section(Part.NOT_APART, by_change[Change.NOT_APART], names),
        Section(Part.ONE_ONLY, ("release", "measure", *names), tuple(alone)),
    )
    same = (
        (same_settings, "setting"),
        (len(claims) - len(claims_changed), "claim"),
        (len(answers) - len(changed), "answer"),
        (len(by_change[Change.SAME]), "measure"),
    )
    return Comparison(
        _headline(found, [p for p in measures if p.change != Change.ONE_ONLY], names),
        tuple(_escaped(section) for section in found if section.rows),
        f"The same in both: {', '.join(count(n, noun) for n, noun in same)}.",
    )


def text(found: Comparison) -> str:
    """Format a comparison for a terminal."""
    return "\n\n".join([found.headline, *map(_aligned, found.sections), found.same])


def _headline(found: Sequence[Section], compared: Sequence[Pair], names: tuple[str, str]) -> str:
    if not any(section.rows for section in found):
        return NOTHING
    rows = {section.title: len(section.rows) for section in found}
    audited = [pair for pair in compared if not pair.reference] or compared
    apart = sum(pair.change == Change.APART for pair in audited)
    untested = sum(pair.p is None for pair in audited)
    differing = (
        (rows[Part.SETTINGS], "setting differs", "settings differ"),
        (rows[Part.CLAIMS], "claim differs", "claims differ"),
        (rows[Part.ANSWERS], "answer changed", "answers changed"),
    )
    parts = [count(number, *nouns) for number, *nouns in differing if number]
    cannot = f" ({untested} cannot be tested)" if untested else ""
    parts.append(
        f"{apart} of {count(len(audited), 'measure')} of audited releases told apart{cannot}"
    )
    if rows[Part.ONE_ONLY]:
        parts.append(f"{rows[Part.ONE_ONLY]} in one run only")
    return f"{names[1]} against {names[0]}: {', '.join(parts)}."


def _aligned(section: Section) -> str:
    table = [section.columns, *section.rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(section.columns))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    note = [NOTES[section.title]] if section.title in NOTES else []
    return "\n".join([f"{section.title}:", *note, *(f"  {line}" for line in lines)])


def _escaped(section: Section) -> Section:
    rows = tuple(tuple(visible(cell) for cell in row) for row in section.rows)
    return Section(section.title, section.columns, rows)


def _matched(ones: Sequence[ReleaseResult], others: Sequence[ReleaseResult]) -> list[Both]:
    unmatched = list(others)
    names = labels(ones)
    found: list[ReleaseResult | None] = [None] * len(ones)
    for same in (key, lambda release: release.defense):
        for i, release in enumerate(ones):
            if found[i] is None:
                match = next((r for r in unmatched if same(r) == same(release)), None)
                found[i] = match
                unmatched = [r for r in unmatched if r is not match]
    both: list[Both] = [(n, a, b) for n, a, b in zip(names, ones, found, strict=True)]
    only_second = zip(labels(unmatched), unmatched, strict=True)
    return both + [(name, None, release) for name, release in only_second]


def _claim(claim: GuaranteeResult) -> str:
    epsilon = "unknown" if claim.epsilon is None else at_most(claim.epsilon, 4)
    order = "" if claim.alpha is None else f", Rényi order {claim.alpha:g}"
    delta = "" if claim.delta is None else f", δ = {at_most(claim.delta)}"
    return f"ε = {epsilon} per {claim.unit} ({claim.relation}){order}{delta}, {claim.basis}"


def _answers(name: str, a: ReleaseResult, b: ReleaseResult) -> Iterator[Row]:
    """Write both answers of a release over all its measures, then those of each measure."""
    yield name, "all measures", _words(a), _words(b)
    before, after = ({(f.attack, f.metric): f for f in r.findings} for r in (a, b))
    for attack, metric in (kind for kind in before if kind in after):
        words = [_words(found[attack, metric]) for found in (before, after)]
        yield name, f"{attack}.{metric}", *words


def _settings_of_sweeps(one: Results, other: Results) -> Iterator[Row]:
    """Write both answers of each setting of two sweeps over its seeds, matched in order by name."""
    before, after = (dict(_cells(run)) for run in (one, other))
    for name in (n for n in before if n in after):
        yield name, "all seeds", _words(before[name]), _words(after[name])


def _cells(run: Results) -> Iterator[tuple[str, Cell]]:
    cells = [] if run.sweep is None else run.sweep.cells
    firsts = [run.releases[c.releases[0]].model_copy(update={"seed": 0}) for c in cells]
    yield from zip(labels(firsts), cells, strict=True)


def _words(answered: FindingResult | ReleaseResult | Cell) -> str:
    """Write `leak; claim refuted`: both answers, the second where there is a claim."""
    silent = answered.claim in (OnClaim.NOTHING_CLAIMED, OnClaim.UNKNOWN)
    claim = str(answered.claim) if silent else f"claim {answered.claim}"
    leaked = answered.leaked if isinstance(answered, FindingResult) else leaked_of(answered)
    return f"{leaked}; {claim}"


def _alone(both: Sequence[Both]) -> Iterator[Row]:
    for name, a, b in both:
        if a is None or b is None:
            known = "released", "no such release"
            yield name, "all measures", *(known if b is None else known[::-1])


def _measured(pair: Pair) -> Row:
    return pair.release, _named(pair), written(pair.one), written(pair.other)


def _section(title: Part, found: Sequence[Pair], names: tuple[str, str]) -> Section:
    apart = title == Part.APART
    columns: Row = ("release", "measure (unit)", *names, "adjusted p")
    rows = [(*_measured(p), _shown(p.p), *([p.direction] if apart else [])) for p in found]
    return Section(title, (*columns, f"{names[1]} is") if apart else columns, tuple(rows))


def _named(pair: Pair) -> str:
    unit = pair.unit
    return pair.measure if unit == pair.measure else f"{pair.measure} ({unit})"


def _shown(p: float | None) -> str:
    if p is None:
        return "not tested"
    return f"{p:.2g}" if p >= _LEAST else f"< {_LEAST:g}"
