"""What every format says: Results turned once into plain rows and sentences.

All strings in a Page are visible text: see `_words.visible`. Formats only lay them out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from audit.results import EpsilonLower, FindingResult, ReleaseResult, Results
from reports import _detail, _figures, _words
from reports._figures import Figure
from reports._marks import VERDICTS

Pair = tuple[str, str]
TABLE_LINES = 17
PAGE_LINES = 36


@dataclass(frozen=True)
class Row:
    """One finding on page one."""

    measurement: str
    value: str
    interval: str
    bound: str
    twins: str
    trials: str
    verdict: str


@dataclass(frozen=True)
class Block:
    """One release on page one: its claim above what was found."""

    name: str
    role: str
    reference: bool
    claim: str
    anchor: str
    rows: list[Row]


@dataclass(frozen=True)
class Promise:
    """A formal guarantee, apart from any evidence."""

    name: str
    claim: str
    theorem: str
    published: str
    conditions: list[str]


@dataclass(frozen=True)
class Page:
    """The whole report, figures excepted."""

    title: str
    subtitle: str
    headline: str
    partial: bool
    tested: list[Pair]
    blocks: list[Block]
    summary_note: str
    promises: list[Promise]
    promises_note: str
    not_tested: list[str]
    command: str
    plan_hash: str
    verdicts: list[Pair]
    details: list[_detail.Detail]
    environment: list[Pair]
    costs: _detail.Table
    warnings: list[str]


def content(results: Results) -> tuple[Page, list[Figure]]:
    """The page and its figures, made once for all formats of the same results."""
    return _content(inert(results).model_dump_json())


@functools.lru_cache(maxsize=1)
def _content(document: str) -> tuple[Page, list[Figure]]:
    clean = Results.model_validate_json(document)
    return build(clean), _figures.draw(clean, labels(clean.releases))


def inert(results: Results) -> Results:
    """The same results with every string made visible; all formats start from this."""
    return Results.model_validate(_words.visible_tree(results.model_dump()))


def build(results: Results) -> Page:
    """The content of a report; `results` have gone through `inert`."""
    names = labels(results.releases)
    audited = [r for r in results.releases if not r.reference] or results.releases
    subjects = list(dict.fromkeys(release.defense for release in audited))
    blocks, shown, total = _blocks(results, names)
    promises = _promises(results, names)
    fitting = _fitting(promises, blocks)
    return Page(
        title=f"Privacy audit of {_words.clip(', '.join(subjects), 80)}",
        subtitle=f"Privacy audit · {_words.clip(results.corpus.name, 60)}",
        headline=_words.clip(results.headline, 700),
        partial=results.status == "partial",
        tested=_tested(results, subjects),
        blocks=blocks,
        summary_note=_summary_note(results, shown, total),
        promises=promises[:fitting],
        promises_note=_promises_note(len(promises) - fitting),
        not_tested=results.not_tested,
        command=results.reproduce,
        plan_hash=str(results.plan.get("hash", "unknown")),
        verdicts=list(VERDICTS.items()),
        details=[
            _detail.detail(release, name, anchor(i))
            for i, (release, name) in enumerate(zip(results.releases, names, strict=True))
        ],
        environment=[(key, _words.setting(value)) for key, value in results.environment.items()],
        costs=_detail.costs(results.releases, names),
        warnings=results.warnings,
    )


def anchor(index: int) -> str:
    """The fragment identifier of a release's section."""
    return f"release-{index + 1}"


def labels(releases: list[ReleaseResult]) -> list[str]:
    """A name for each release; those of one defense are told apart by what differs."""
    return [_label(release, [o for o in releases if o.defense == release.defense])
            for release in releases]  # fmt: skip


def _label(release: ReleaseResult, alike: list[ReleaseResult]) -> str:
    def differs(values: Iterable[object]) -> bool:
        return len({repr(value) for value in values}) > 1

    parts = [
        f"{key}={_words.setting(value)}"
        for key, value in release.parameters.items()
        if differs(other.parameters.get(key) for other in alike)
    ]
    if differs(other.seed for other in alike):
        parts.append(f"seed={release.seed}")
    return _words.clip(" ".join([release.defense, *parts]), 80)


def _tested(results: Results, subjects: list[str]) -> list[Pair]:
    corpus, plan = results.corpus, results.plan
    model = plan.get("model")
    model_name = model.get("name", "unknown") if isinstance(model, dict) else model or "unknown"
    return [
        ("Defenses", ", ".join(subjects)),
        (
            "Corpus",
            f"{corpus.name}: {_words.count(corpus.records)} records of "
            f"{_words.count(corpus.users)} users, {_words.count(corpus.near_duplicates)} "
            "near-duplicates",
        ),
        (
            "Users by coin",
            f"{_words.count(corpus.planted_users)} decided by a fair coin: "
            f"{_words.count(corpus.trained_users)} trained on, {_words.count(corpus.twins)} twins",
        ),
        ("Model", str(model_name)),
        ("Attacks", _attacks(results)),
        ("Seed", ", ".join(dict.fromkeys(str(release.seed) for release in results.releases))),
    ]


def _attacks(results: Results) -> str:
    trials: dict[str, set[int]] = {}
    for release in results.releases:
        for finding in release.findings:
            trials.setdefault(finding.attack, set()).add(finding.n)
    named = [
        f"{_words.words(attack)} (n = {' or '.join(_words.count(n) for n in sorted(ns)[:3])})"
        for attack, ns in trials.items()
    ]
    return ", ".join(named) or "none"


def _blocks(results: Results, names: list[str]) -> tuple[list[Block], int, int]:
    chosen = _chosen(results.releases)
    blocks = []
    for index, (release, name) in enumerate(zip(results.releases, names, strict=True)):
        rows = [_row(finding) for j, finding in enumerate(release.findings) if (index, j) in chosen]
        if rows or (not release.findings and not release.reference):
            claim = _words.claim(release.guarantee)
            reference = release.reference
            blocks.append(
                Block(name, _words.clip(release.role, 60), reference, claim, anchor(index), rows)
            )
    return blocks, len(chosen), sum(len(release.findings) for release in results.releases)


def _chosen(releases: list[ReleaseResult]) -> set[tuple[int, int]]:
    """Which findings page one shows, as (release, finding), within TABLE_LINES lines.

    The refuted, then one of each reference and of each audited release, then one of each
    attack, then the rest.
    """
    ranked = []
    for i, release in enumerate(releases):
        seen: set[str] = set()
        for j, finding in enumerate(release.findings):
            later = finding.attack in seen
            seen.add(finding.attack)
            reference = release.reference == (j > 0)
            ranked.append((finding.verdict != "refuted", j > 0, later, reference, i, j))
    chosen: set[tuple[int, int]] = set()
    for *_, i, j in sorted(ranked):
        lines = 1 + len(chosen) + len({i, *(block for block, _ in chosen)})
        if lines <= TABLE_LINES:
            chosen.add((i, j))
    return chosen


def _row(finding: FindingResult) -> Row:
    control = finding.control
    twins = "none" if control is None else _words.measured(control.value, None, finding.unit)
    bounds = "" if control is None else _words.interval(control.ci, finding.unit)
    value = "—" if finding.value is None else _words.quantity(finding.value, finding.unit)
    return Row(
        measurement=_detail.measurement(finding),
        value=value,
        interval=_words.interval(finding.ci, finding.unit),
        bound=_bound(finding.epsilon_lower),
        twins=f"{twins} {bounds}".strip(),
        trials=_words.count(finding.n),
        verdict=finding.verdict,
    )


def _bound(bound: EpsilonLower | None) -> str:
    if bound is None or bound.value <= 0:
        return ""
    scope = _words.per_unit(bound.unit, bound.relation)
    return f"so ε ≥ {_words.number(bound.value)} nats {scope}"


def _summary_note(results: Results, shown: int, total: int) -> str:
    levels = sorted({f.confidence for release in results.releases for f in release.findings})
    confidence = " or ".join(_words.share(level) for level in levels) or "95 %"
    note = f"In brackets: intervals at {confidence} confidence. "
    note += "Twins: secrets drawn alike and never trained on."
    if shown < total:
        note += f" {shown} of {total} findings are shown; all stand under each release."
    return note


def _promises(results: Results, names: list[str]) -> list[Promise]:
    """The guarantees of the audited releases; those that say the same are told once."""
    alike: dict[str, list[Promise]] = {}
    for release, name in zip(results.releases, names, strict=True):
        if not release.reference:
            key = release.guarantee.model_dump_json()
            alike.setdefault(key, []).append(promise(release, name))
    return [
        replace(first, name=f"{first.name} and {len(rest)} more" if rest else first.name)
        for first, *rest in alike.values()
    ]


def promise(release: ReleaseResult, name: str) -> Promise:
    """The guarantee of one release, with what a paper publishes for it where that differs."""
    guarantee = release.guarantee
    published = ""
    if guarantee.published_epsilon is not None:
        scope = _words.per_unit(guarantee.unit, guarantee.relation)
        value = _words.epsilon(guarantee.published_epsilon)
        published = f"ε = {value} nats {scope}, as published; not what is claimed here"
    return Promise(
        name=name,
        claim=_words.claim(guarantee),
        theorem=guarantee.theorem,
        published=published,
        conditions=guarantee.conditions,
    )


def _fitting(promises: list[Promise], blocks: list[Block]) -> int:
    """How many guarantees, the first at least, leave page one a single page."""
    lines = sum(1 + len(block.rows) + sum(bool(row.bound) for row in block.rows)
                for block in blocks)  # fmt: skip
    fitting = 0
    for p in promises:
        texts = [p.name, p.claim, p.theorem, p.published, *p.conditions]
        lines += sum(1 + len(text) // 55 for text in texts if text)
        fitting += lines <= PAGE_LINES or fitting == 0
    return fitting


def _promises_note(left: int) -> str:
    if left == 0:
        return ""
    return f"{left} more {'stands' if left == 1 else 'stand'} under Each release."
