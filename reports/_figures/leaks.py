"""Measurements of each release, beside the twins, the blind baseline and chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from audit.core.terms import Leaked
from audit.results import quoting, words
from audit.results.quoting import is_open
from audit.results.schema import FindingResult, ReleaseResult
from reports._content import verdicts, wording
from reports._content.figure import Figure
from reports._content.releases import MOST_ROWS, NamedRelease
from reports._content.summary import quoted
from reports._content.table import Table, pieces
from reports._figures import rows, svg
from reports._figures.rows import Kind, Mark, Row

PLANTED = {
    Leaked.LEAK: Kind("leak", "o", 0.55, size=7.5, colour=svg.ALARM),
    Leaked.INSIDERS: Kind("leak to insiders", "o", 0.55, size=5, colour=svg.ALARM),
    Leaked.NONE_FOUND: Kind("no leak found", "o", 0.55, fill="none"),
    Leaked.INCONCLUSIVE: Kind("inconclusive", "o", 0.55, fill="left"),
    Leaked.NOT_MEASURED: Kind("no answer", "|", 0.55, size=10),
}
TWINS = Kind("twins", "s", 0.76, fill="none", quiet=True, size=5)
BLIND = Kind("blind", "D", 0.92, fill="none", quiet=True, size=4.4)
_HEAD = ["Release", "Planted [interval]", "Twins [interval]", "Blind [interval]", "Chance",
         "Leaked; the claim"]  # fmt: skip


def figures(releases: Sequence[NamedRelease]) -> Iterator[Figure]:
    """Draw a figure for each attack, the worst first, by the measure that page one quotes.

    The attacks' tables hold all measures.
    """
    subjects = [one.release for one in releases if not one.release.reference]
    quotes = [f for r in subjects or [one.release for one in releases] for f in quoted(r)]
    quotes = [finding for finding in quotes if finding.charge_test is None]  # it looks for none
    worst: dict[str, FindingResult] = {}
    for finding in sorted(quotes, key=_tells_less):
        worst.setdefault(finding.attack, finding)
    for index, (attack, like) in enumerate(worst.items()):
        title = f"{wording.spelled(attack)}: {wording.metric(attack, like.metric)}"
        findings = [next(iter(quoting.alike(like, one.release)), None) for one in releases]
        pairs = list(zip(releases, findings, strict=True))
        lines = [_row(one, finding) for one, finding in pairs]
        cells = [_cells(one.name, finding) for one, finding in pairs]
        scale = rows.scale_of(lines, like.unit)
        for suffix, piece in pieces(len(lines), MOST_ROWS):
            words = [f"{c[0]} {c[1]}, twins {c[2]}, blind {c[3]}" for c in cells[piece]]
            label = f"{like.unit}, log scale" if scale.logarithmic else like.unit
            yield Figure(
                title=title + suffix,
                caption="Lines are intervals. Twins were never trained on.",
                alternative=f"{title}{suffix} in {like.unit}, by release. {'; '.join(words)}.",
                svg=rows.draw(lines[piece], scale, wording.clip(label, 52),
                              f"leak{index}-{piece.start}"),
                table=Table(f"{title}, {like.unit}{suffix}", _HEAD, cells[piece]),
            )  # fmt: skip


def _tells_less(finding: FindingResult) -> tuple[bool, bool, bool]:
    """Order findings: leaks, then what the release itself gives, then what was measured."""
    return finding.leaked != Leaked.LEAK, finding.stronger_than_release, finding.value is None


def _row(one: NamedRelease, finding: FindingResult | None) -> Row:
    note = "not measured" if finding is None else verdicts.measured(finding)
    row = Row(one.name, note, one.release.reference, aside=_elsewhere(one.release, finding))
    if finding is None or finding.value is None:
        return row
    sides = [(PLANTED[finding.leaked], finding), (TWINS, finding.control), (BLIND, finding.blind)]
    marks = [Mark(kind, side.value or 0.0, side.ci) for kind, side in sides if side]
    return replace(row, marks=marks, chance=finding.chance)


def _elsewhere(release: ReleaseResult, shown: FindingResult | None) -> str:
    """Name by what a release leaks, where the measure shown is not a leak.

    Where nothing leaks, it names a measure that is open.
    """
    if shown is not None and shown.leaked.detected:
        return ""
    leaks = [f for f in release.findings if f.leaked.detected]
    own = [f for f in leaks if f.leaked == Leaked.LEAK]
    if own:
        return wording.clip(f"a leak by {_names(own, shown)}", 48)
    if leaks:
        return wording.clip(f"a leak to insiders by {_names(leaks, shown)}", 48)
    unsure = [f for f in release.findings if is_open(f) and not f.stronger_than_release]
    if unsure and shown not in unsure and not release.reference:
        return wording.clip(f"inconclusive by {wording.measurement(unsure[0])}", 48)
    return ""


def _names(leaks: Sequence[FindingResult], shown: FindingResult | None) -> str:
    """List the attacks; of the one that is shown, the measure that leaks."""
    first: dict[str, str] = {}
    for finding in leaks:
        same = shown is not None and finding.attack == shown.attack
        name = wording.measurement(finding) if same else wording.spelled(finding.attack)
        first.setdefault(finding.attack, name)
    return ", ".join(first.values())


def _cells(name: str, finding: FindingResult | None) -> list[str]:
    if finding is None:
        return [name, "not measured", "none", "none", "unknown", str(Leaked.NOT_MEASURED)]
    unit = finding.unit
    chance = "unknown" if finding.chance is None else words.quantity(finding.chance, unit)
    controls = [wording.beside(side, unit) for side in (finding.control, finding.blind)]
    return [name, verdicts.measured(finding), *controls, chance, verdicts.both(finding)]
