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
from audit.results.schema import ReleaseResult, Results
from reports._content import attacks, claims, detail, first, page, wording
from reports._content.figure import Figure
from reports._content.page import Page
from reports._content.summary import Block, Line, Overview, Row, Summary, Value, anchor, legend_of
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
        return [page.inert(run) for run in (self.one, self.other)]

    @property
    def releases(self) -> list[ReleaseResult]:
        """The releases of A, then of B."""
        return [release for run in self.runs for release in run.releases]

    @property
    def names(self) -> list[str]:
        """The names of the releases, each after that of its run."""
        return [
            f"{word} · {name}"
            for word, run in zip(RUNS, self.runs, strict=True)
            for name in page.labels(run.releases)
        ]

    @cached_property
    def page(self) -> Page:
        """Content of html and pdf, apart from the figures."""
        return _build(self.runs, self.releases, self.names)

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures of all releases."""
        from reports._figures import run  # loads matplotlib

        return run.figures(self.releases, self.names)


def _build(
    runs: Sequence[Results], releases: Sequence[ReleaseResult], names: Sequence[str]
) -> Page:
    found = comparison.compare(runs[0], runs[1])
    pages = [page.build(run) for run in runs]
    later, both = pages[1], list(zip(RUNS, pages, strict=True))
    badges = [
        replace(one.badges[0], about=_of(word, one), next="", command="") for word, one in both
    ]
    return replace(
        later,
        title=f"Privacy comparison: {later.title.removeprefix('Privacy audit of ')}",
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
        summary=_summary([one.summary for one in pages], len(runs[0].releases)),
        promises=[
            replace(promise, name=f"{word} · {promise.name}")
            for word, one in both
            for promise in one.promises
        ],
        promises_note=" ".join(one.promises_note for one in pages).strip(),
        not_tested=list(dict.fromkeys(line for one in pages for line in one.not_tested)),
        command="\n".join(f"{word}: {one.command}" for word, one in both),
        plan_hash=", ".join(f"{word} {one.plan_hash}" for word, one in both),
        attacks=attacks.attacks(releases, names),
        comparisons=claims.comparisons(releases, names),
        details=[],
        costs=detail.costs(releases, names),
        environment=_both([one.environment for one in pages]),
        warnings=list(dict.fromkeys(line for one in pages for line in one.warnings)),
    )


def _of(word: str, one: Page) -> str:
    """Name the release that a verdict is about, with its run."""
    return " · ".join(filter(None, (word, one.badges[0].about)))


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


def _summary(summaries: Sequence[Summary], first: int) -> Summary:
    """List the releases of A, then of B, under the columns of both."""
    heads = list(dict.fromkeys(head for summary in summaries for head in summary.controls))
    blocks = [
        replace(
            block,
            name=f"{word} · {block.name}",
            anchor=_shifted(block, first if word == RUNS[1] else 0),
            rows=[_widened(row, summary.controls, heads) for row in block.rows],
        )
        for word, summary in zip(RUNS, summaries, strict=True)
        for block in summary.blocks
    ]
    note, overview = summaries[1].note, _overview(summaries, first)
    return Summary(heads, blocks, note, overview, legend_of(blocks, heads))


def _overview(summaries: Sequence[Summary], first: int) -> Overview:
    """List the settings of A, then of B, under the attacks of both."""
    attacks = list(dict.fromkeys(name for s in summaries for name in s.overview.attacks))
    lines = []
    for word, one in zip(RUNS, (summary.overview for summary in summaries), strict=True):
        for line in one.lines:
            found = dict(zip(one.attacks, line.fields, strict=True))
            fields = [found.get(attack, []) for attack in attacks]
            place = _shifted(line, first if word == RUNS[1] else 0)
            lines.append(replace(line, name=f"{word} · {line.name}", anchor=place, fields=fields))
    return Overview(attacks, lines)


def _widened(row: Row, controls: list[str], heads: list[str]) -> Row:
    values = dict(zip(controls, row.controls, strict=True))
    return replace(row, controls=[values.get(head, Value("—", "")) for head in heads])


def _shifted(block: Block | Line, by: int) -> str:
    place = int(block.anchor.rpartition("-")[2]) - 1
    return anchor(place + by)
