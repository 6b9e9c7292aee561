"""The report of two runs: what changed, then the releases of both beside each other.

A and B are the earlier and the later run. The releases of both go through the same code as those of
one, so that every measure, bound and figure stands twice, under the name of its run.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from audit.gate import comparison
from audit.gate.comparison import Section
from audit.gate.metric import labels
from audit.results.schema import Results
from reports import _attacks, _detail, _epsilon, _figures, _page, _words
from reports._figure import Figure, Table
from reports._page import Page
from reports._summary import Block, Row, Summary, Value, anchor

RUNS = ("A", "B")
_TITLES = {
    "plan": "Plan: what differs",
    "claims": "Claims",
    "utility": "Utility, with two-sided p-values",
    "findings": "Findings, with two-sided p-values, Holm-adjusted",
}
_TESTS = (
    "A p-value is of the hypothesis that nothing changed. Where both runs are of one plan and say "
    "it of each secret, outcomes are paired; else the runs are taken as independent."
)
_SOME = 0.05  # adjusted p below which the headline counts a change


def content(one: Results, other: Results) -> tuple[Page, list[Figure]]:
    """The page and its figures, made once for all formats."""
    return _content(*(_page.inert(run).model_dump_json() for run in (one, other)))


@functools.lru_cache(maxsize=1)
def _content(one: str, other: str) -> tuple[Page, list[Figure]]:
    runs = [Results.model_validate_json(document) for document in (one, other)]
    joined = runs[1].model_copy(update={"releases": [r for run in runs for r in run.releases]})
    names = [
        f"{word} · {name}"
        for word, run in zip(RUNS, runs, strict=True)
        for name in _page.labels(run.releases)
    ]
    sections = comparison.compare(*runs)
    return _build(runs, joined, names, sections), _figures.draw(joined, names)


def _build(
    runs: Sequence[Results], joined: Results, names: list[str], sections: Sequence[Section]
) -> Page:
    pages = [_page.build(run) for run in runs]
    later = pages[1]
    return dataclasses.replace(
        later,
        title=f"Privacy comparison: {later.title.removeprefix('Privacy audit of ')}",
        subtitle=later.subtitle.replace("Privacy audit", "Privacy comparison", 1),
        headline=_headline(runs, sections),
        partial=any(page.partial for page in pages),
        changes=[*map(_table, sections)],
        tested=_both([page.tested for page in pages]),
        summary=_summary([page.summary for page in pages], len(runs[0].releases)),
        promises=[
            dataclasses.replace(promise, name=f"{word} · {promise.name}")
            for word, page in zip(RUNS, pages, strict=True)
            for promise in page.promises
        ],
        promises_note=" ".join(page.promises_note for page in pages).strip(),
        not_tested=list(dict.fromkeys(line for page in pages for line in page.not_tested)),
        command="\n".join(f"{word}: {p.command}" for word, p in zip(RUNS, pages, strict=True)),
        plan_hash=", ".join(f"{w} {p.plan_hash}" for w, p in zip(RUNS, pages, strict=True)),
        attacks=_attacks.attacks(joined.releases, names),
        comparisons=_epsilon.comparisons(joined.releases, names),
        details=[],
        costs=_detail.costs(joined.releases, names),
        environment=_both([page.environment for page in pages]),
        warnings=list(dict.fromkeys(line for page in pages for line in page.warnings)),
    )


def _headline(runs: Sequence[Results], sections: Sequence[Section]) -> str:
    """What is shown of the audited releases' findings, in a sentence: no absence of a change is."""
    audited = {
        label
        for run in runs
        for label, release in zip(labels(run.releases), run.releases, strict=True)
        if not release.reference
    }
    (findings,) = (section for section in sections if section.title == "findings")
    column = findings.columns.index("adjusted p")
    told = [row[column] for row in findings.rows if row[0] in audited]
    changed = sum(float(p) < _SOME for p in told if p)
    untold = told.count("")
    beside = f"; {untold} could not be compared" if untold else ""
    return (
        f"Shown to have changed: {changed} of {len(told)} findings (adjusted p < 0.05){beside}. "
        f"{_plans(sections)}"
    )


def _plans(sections: Sequence[Section]) -> str:
    (plan,) = (section for section in sections if section.title == "plan")
    if not plan.rows:
        return "The plans are the same."
    differing = ", ".join(row[0] for row in plan.rows[:6])
    more = " and more" if len(plan.rows) > 6 else ""
    return _words.clip(f"The plans differ: {differing}{more}.", 400)


def _table(section: Section) -> Table:
    rows = [list(row) for row in section.rows]
    note = f" {_TESTS}" if section.title == "findings" else ""
    none = "" if rows else " No difference."
    return Table(f"{_TITLES[section.title]}.{note}{none}", list(section.columns), rows)


def _both(pairs: Sequence[list[_page.Pair]]) -> list[_page.Pair]:
    """Facts of both runs: one line where they agree, else a line for each."""
    one, other = (dict(facts) for facts in pairs)
    told: list[_page.Pair] = []
    for term in dict.fromkeys([*one, *other]):
        values = [one.get(term, "none"), other.get(term, "none")]
        if values[0] == values[1]:
            told.append((term, values[0]))
        else:
            told += [(f"{term} ({word})", v) for word, v in zip(RUNS, values, strict=True)]
    return told


def _summary(summaries: Sequence[Summary], first: int) -> Summary:
    """The releases of A, then those of B, under the columns that either has."""
    heads = list(dict.fromkeys(head for summary in summaries for head in summary.controls))
    blocks = [
        dataclasses.replace(
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
    had = dict(zip(controls, row.controls, strict=True))
    return dataclasses.replace(row, controls=[had.get(head, Value("—", "")) for head in heads])


def _shifted(block: Block, by: int) -> str:
    place = int(block.anchor.rpartition("-")[2]) - 1
    return anchor(place + by)
