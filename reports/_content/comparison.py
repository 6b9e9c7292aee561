"""The report of two runs: what differs, then the releases of both beside each other.

A is the earlier run, B the later one. What differs is worded once, for the terminal as well. Every
measure, bound and figure of both is shown under the name of its run, by the code that shows a
single run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from audit.gate import comparison
from audit.gate.comparison import NAMES, NOTES, Part, Section
from audit.results.schema import Results
from reports._content import attacks, claims, detail, first, page, wording
from reports._content.figure import Figure
from reports._content.page import Page
from reports._content.releases import NamedRelease, inert, named, settings
from reports._content.summary import Overview, Row, Summary, Value, legend_of
from reports._content.table import Pair, Table

RUNS = NAMES
_TESTS = (
    "A p-value is two-sided and tests the hypothesis that nothing changed. Outcomes are paired "
    "where both runs are of one plan and list the outcome of each secret; otherwise the runs count "
    "as independent."
)


@dataclass(frozen=True)
class TwoRuns:
    """Two runs side by side, as formats see them: built once, and handed to each."""

    one: Results
    other: Results

    @cached_property
    def runs(self) -> list[Results]:
        """Both with every string visible."""
        return [inert(run) for run in (self.one, self.other)]

    @cached_property
    def shown(self) -> list[list[NamedRelease]]:
        """The releases of A, then those of B, each under a name that begins with its run's."""
        one, other = (run.releases for run in self.runs)
        return [named(one, f"{RUNS[0]} · "), named(other, f"{RUNS[1]} · ", first=len(one))]

    @cached_property
    def page(self) -> Page:
        """Content of html and pdf, apart from the figures."""
        return _build(self.runs, self.shown)

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures of all releases."""
        from reports._figures import run  # loads matplotlib

        return run.figures([*self.shown[0], *self.shown[1]])


def _build(runs: Sequence[Results], shown: Sequence[Sequence[NamedRelease]]) -> Page:
    found = comparison.compare(runs[0], runs[1])
    pages = [page.build(run, releases) for run, releases in zip(runs, shown, strict=True)]
    later, both, every = pages[1], list(zip(RUNS, pages, strict=True)), [*shown[0], *shown[1]]
    verdicts = [
        (word, first.verdict(run, named(settings(run), f"{word} · ")))
        for word, run in zip(RUNS, runs, strict=True)
    ]
    badges = [replace(v, about=v.about or word, next="", command="") for word, v in verdicts]
    return replace(
        later,
        title=later.title.replace("Privacy audit of", "Privacy comparison:", 1),
        subtitle=later.subtitle.replace("Privacy audit", "Privacy comparison", 1),
        facts="A is the earlier run, B the later one",
        badges=badges,
        warned_title=first.warned_title(badges),
        warned=[
            f"{word}: {line}" for word, one in both for line in one.warned if line != first.NO_GATE
        ],
        gate="",
        boxes=[],
        headline=[found.headline, *_settings(found)],
        changes=[*map(_table, found.sections), Table(found.same, [], [])],
        tested=_both([one.tested for one in pages]),
        summary=_summary([one.summary for one in pages]),
        promises=[promise for one in pages for promise in one.promises],
        promises_note=" ".join(one.promises_note for one in pages).strip(),
        not_tested=list(dict.fromkeys(line for one in pages for line in one.not_tested)),
        command="\n".join(f"{word}: {one.command}" for word, one in both),
        plan_hash=", ".join(f"{word} {one.plan_hash}" for word, one in both),
        attacks=attacks.attacks(every),
        comparisons=claims.comparisons(every),
        details=[],
        costs=detail.costs(every),
        environment=_both([one.environment for one in pages]),
        warnings=list(dict.fromkeys(line for one in pages for line in one.warnings)),
    )


def _settings(found: comparison.Comparison) -> list[str]:
    """Name the first settings that differ, for page one."""
    rows = [row for part in found.sections if part.title == Part.SETTINGS for row in part.rows]
    if not rows:
        return []
    more = " and more" if len(rows) > 6 else ""
    named = ", ".join(row[0] for row in rows[:6])
    return [wording.clip(f"Settings that differ: {named}{more}.", 400)]


def _table(section: Section) -> Table:
    tested = section.title in (Part.APART, Part.NOT_APART)
    notes = [f"{section.title}.", NOTES.get(section.title, ""), _TESTS if tested else ""]
    rows = [list(row) for row in section.rows]
    return Table(" ".join(filter(None, notes)), list(section.columns), rows)


def _both(pairs: Sequence[list[Pair]]) -> list[Pair]:
    """Join the facts of both runs: one line where they agree, otherwise a line for each."""
    one, other = (dict(facts) for facts in pairs)
    joined: list[Pair] = []
    for term in dict.fromkeys([*one, *other]):
        values = [one.get(term, "none"), other.get(term, "none")]
        if values[0] == values[1]:
            joined.append((term, values[0]))
        else:
            joined += [(f"{term} ({word})", v) for word, v in zip(RUNS, values, strict=True)]
    return joined


def _summary(summaries: Sequence[Summary]) -> Summary:
    """List the releases of A, then of B, under the columns of both."""
    heads = list(dict.fromkeys(head for summary in summaries for head in summary.controls))
    blocks = [
        replace(block, rows=[_widened(row, summary.controls, heads) for row in block.rows])
        for summary in summaries
        for block in summary.blocks
    ]
    overview = _overview([summary.overview for summary in summaries])
    return Summary(heads, blocks, summaries[1].note, overview, legend_of(blocks, heads))


def _overview(overviews: Sequence[Overview]) -> Overview:
    """List the settings of A, then of B, under the attacks of both."""
    attacks = list(dict.fromkeys(name for one in overviews for name in one.attacks))
    lines = []
    for one in overviews:
        for line in one.lines:
            found = dict(zip(one.attacks, line.fields, strict=True))
            lines.append(replace(line, fields=[found.get(attack, []) for attack in attacks]))
    return Overview(attacks, lines)


def _widened(row: Row, controls: list[str], heads: list[str]) -> Row:
    values = dict(zip(controls, row.controls, strict=True))
    return replace(row, controls=[values.get(head, Value("—")) for head in heads])
