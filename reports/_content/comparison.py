"""The report of two runs: what changed, then the releases of both beside each other.

A is the earlier run, B the later one. Every measure, bound and figure of both is shown under the
name of its run, by the code that shows a single run.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from audit.gate import comparison
from audit.gate.comparison import Section
from audit.gate.metric import labels
from audit.results.schema import Results
from reports._content import attacks, claims, detail, page, wording
from reports._content.page import Page
from reports._content.summary import Block, Row, Summary, Value, anchor
from reports._content.table import Table
from reports._figures import run as run_figures
from reports._figures.figure import Figure

RUNS = ("A", "B")
_TITLES = {
    "plan": "Plan: what differs",
    "claims": "Claims",
    "utility": "Utility, with two-sided p-values",
    "findings": "Findings, with two-sided p-values, Holm-adjusted",
}
_TESTS = (
    "A p-value tests the hypothesis that nothing changed. Outcomes are paired where both runs are "
    "of one plan and list the outcome of each secret; otherwise the runs count as independent."
)
_SOME = 0.05  # adjusted p below which the headline counts a change


def content(one: Results, other: Results) -> tuple[Page, list[Figure]]:
    """Builds the page and its figures, once for all formats."""
    return _content(*(page.inert(run).model_dump_json() for run in (one, other)))


@functools.lru_cache(maxsize=1)
def _content(one: str, other: str) -> tuple[Page, list[Figure]]:
    runs = [Results.model_validate_json(document) for document in (one, other)]
    joined = runs[1].model_copy(update={"releases": [r for run in runs for r in run.releases]})
    names = [
        f"{word} · {name}"
        for word, run in zip(RUNS, runs, strict=True)
        for name in page.labels(run.releases)
    ]
    sections = comparison.compare(*runs)
    return _build(runs, joined, names, sections), run_figures.figures(joined.releases, names)


def _build(
    runs: Sequence[Results], joined: Results, names: list[str], sections: Sequence[Section]
) -> Page:
    pages = [page.build(run) for run in runs]
    later, both = pages[1], list(zip(RUNS, pages, strict=True))
    return replace(
        later,
        title=f"Privacy comparison: {later.title.removeprefix('Privacy audit of ')}",
        subtitle=later.subtitle.replace("Privacy audit", "Privacy comparison", 1),
        headline=[_headline(runs, sections)],
        partial=any(one.partial for one in pages),
        changes=[*map(_table, sections)],
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
        attacks=attacks.attacks(joined.releases, names),
        comparisons=claims.comparisons(joined.releases, names),
        details=[],
        costs=detail.costs(joined.releases, names),
        environment=_both([one.environment for one in pages]),
        warnings=list(dict.fromkeys(line for one in pages for line in one.warnings)),
    )


def _headline(runs: Sequence[Results], sections: Sequence[Section]) -> str:
    """Counts the changes shown in findings of audited releases; no test shows that none changed."""
    audited = {
        label
        for run in runs
        for label, release in zip(labels(run.releases), run.releases, strict=True)
        if not release.reference
    }
    (findings,) = (section for section in sections if section.title == "findings")
    column = findings.columns.index("adjusted p")
    p_values = [row[column] for row in findings.rows if row[0] in audited]
    changed = sum(float(p) < _SOME for p in p_values if p)
    untested = p_values.count("")
    rest = f"; {untested} could not be compared" if untested else ""
    return (
        f"Shown to have changed: {changed} of {len(p_values)} findings (adjusted p < 0.05){rest}. "
        f"{_plans(sections)}"
    )


def _plans(sections: Sequence[Section]) -> str:
    (plan,) = (section for section in sections if section.title == "plan")
    if not plan.rows:
        return "The plans are the same."
    differing = ", ".join(row[0] for row in plan.rows[:6])
    more = " and more" if len(plan.rows) > 6 else ""
    return wording.clip(f"The plans differ: {differing}{more}.", 400)


def _table(section: Section) -> Table:
    rows = [list(row) for row in section.rows]
    note = f" {_TESTS}" if section.title == "findings" else ""
    none = "" if rows else " No difference."
    return Table(f"{_TITLES[section.title]}.{note}{none}", list(section.columns), rows)


def _both(pairs: Sequence[list[page.Pair]]) -> list[page.Pair]:
    """Joins the facts of both runs: one line where they agree, otherwise a line for each."""
    one, other = (dict(facts) for facts in pairs)
    joined: list[page.Pair] = []
    for term in dict.fromkeys([*one, *other]):
        values = [one.get(term, "none"), other.get(term, "none")]
        if values[0] == values[1]:
            joined.append((term, values[0]))
        else:
            joined += [(f"{term} ({word})", v) for word, v in zip(RUNS, values, strict=True)]
    return joined


def _summary(summaries: Sequence[Summary], first: int) -> Summary:
    """Lists the releases of A, then of B, under the columns of both."""
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
    return Summary(heads, blocks, summaries[1].note)


def _widened(row: Row, controls: list[str], heads: list[str]) -> Row:
    values = dict(zip(controls, row.controls, strict=True))
    return replace(row, controls=[values.get(head, Value("—", "")) for head in heads])


def _shifted(block: Block, by: int) -> str:
    place = int(block.anchor.rpartition("-")[2]) - 1
    return anchor(place + by)
