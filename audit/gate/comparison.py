"""Compares two runs: what changed in plan, claims, utility and findings, with tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from audit.core.terms import OnClaim
from audit.gate import increase_test
from audit.gate.leaks import measured
from audit.gate.metric import between, changes, key, labels, metric_of, plan_of
from audit.gate.render.escaping import visible
from audit.results.schema import FindingResult, GuaranteeResult, Measure, ReleaseResult, Results
from audit.results.words import at_most
from audit.statistics.holm import adjusted_p_values
from audit.statistics.interval import Interval

Row = tuple[str, ...]
Both = tuple[str, ReleaseResult | None, ReleaseResult | None]


@dataclass(frozen=True)
class Section:
    """A table with its heading; every cell is printable text on one line."""

    title: str
    columns: Row
    rows: tuple[Row, ...]


def compare(one: Results, other: Results) -> tuple[Section, ...]:
    """Compares plan, claims, utility and findings of two runs, references included.

    p-values are two-sided, and Holm-adjusted over all findings. They are paired where both runs
    are of one plan and hold the outcome of each secret; otherwise the runs count as independent.
    Releases are matched by defense, parameters and seed; the remaining ones by defense, in order.
    """
    both = _matched(one.releases, other.releases)
    alike = not changes(plan_of(one), plan_of(other))
    claims = [(name, _claim(a), _claim(b)) for name, a, b in both]
    sections = (
        Section("plan", ("what", "A", "B"), tuple(_plan(one, other))),
        Section("claims", ("release", "A", "B"), tuple(claims)),
        Section("utility", ("release", "measure", "A", "B", "p"), tuple(_utility(both))),
        Section(
            "findings",
            ("release", "metric", "A", "B", "adjusted p", "leaked; claim"),
            tuple(_findings(both, alike)),
        ),
    )
    return tuple(_escaped(section) for section in sections)


def text(sections: Sequence[Section]) -> str:
    """Formats the sections for a terminal."""
    return "\n\n".join(_aligned(section) for section in sections)


def _aligned(section: Section) -> str:
    if not section.rows:
        return f"{section.title}: no difference"
    table = [section.columns, *section.rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(section.columns))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    return "\n".join([f"{section.title}:", *(f"  {line}" for line in lines)])


def _escaped(section: Section) -> Section:
    rows = tuple(tuple(visible(cell) for cell in row) for row in section.rows)
    return Section(section.title, section.columns, rows)


def _matched(ones: Sequence[ReleaseResult], others: Sequence[ReleaseResult]) -> list[Both]:
    unmatched = list(others)
    names = labels(ones)
    pairs: list[ReleaseResult | None] = []
    for same in (key, lambda release: release.defense):
        for i, release in enumerate(ones):
            if same is key:
                pairs.append(None)
            if pairs[i] is None:
                match = next((r for r in unmatched if same(r) == same(release)), None)
                pairs[i] = match
                unmatched = [r for r in unmatched if r is not match]
    both: list[Both] = [(n, a, b) for n, a, b in zip(names, ones, pairs, strict=True)]
    only_second = zip(labels(unmatched), unmatched, strict=True)
    return both + [(name, None, release) for name, release in only_second]


def _plan(one: Results, other: Results) -> Iterator[Row]:
    """What differs between the plans, defenses and an external model included."""
    before, after = (
        {**plan_of(run), **{n: run.plan[n] for n in ("defenses", "finished") if n in run.plan}}
        for run in (one, other)
    )
    for name in sorted(set(before) | set(after)):
        a, b = before.get(name), after.get(name)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            for inner in sorted(set(a) | set(b)):
                if a.get(inner) != b.get(inner):
                    yield f"{name}.{inner}", _short(a.get(inner)), _short(b.get(inner))
        else:
            yield name, _short(a), _short(b)


def _short(value: Any) -> str:
    shown = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


def _claim(release: ReleaseResult | None) -> str:
    if release is None:
        return "no such release"
    claim: GuaranteeResult = release.guarantee
    epsilon = "unknown" if claim.epsilon is None else at_most(claim.epsilon, 4)
    order = "" if claim.alpha is None else f", Rényi order {claim.alpha:g}"
    delta = "" if claim.delta is None else f", δ = {at_most(claim.delta)}"
    return f"ε = {epsilon} per {claim.unit} ({claim.relation}){order}{delta}, {claim.basis}"


def _utility(both: Sequence[Both]) -> Iterator[Row]:
    for label, a, b in both:
        if a is None or b is None:
            continue
        for name in dict.fromkeys([*a.utility, *b.utility]):
            was, now = a.utility.get(name), b.utility.get(name)
            yield label, name, _measure(was), _measure(now), _p_of(was, now)


def _measure(measure: Measure | None) -> str:
    if measure is None:
        return "not measured"
    return f"{measure.value:.4g}{between(measure.ci)}"


def _p_of(was: Measure | None, now: Measure | None) -> str:
    if was is None or now is None:
        return ""
    a, b = _interval(was), _interval(now)
    up, down = increase_test.intervals_p_value(a, b), increase_test.intervals_p_value(b, a)
    return _shown(_doubled(up, down))


def _interval(m: Measure) -> Interval:
    low, high = m.ci if m.ci is not None else (None, None)
    return Interval(m.value, low, high, m.n, m.confidence, m.method)


def _findings(both: Sequence[Both], alike: bool) -> Iterator[Row]:
    pairs = [
        (label, was, now)
        for label, a, b in both
        if a is not None and b is not None
        for was, now in _same_metric(a, b)
    ]
    p_values = [_two_sided(was, now, alike) for _, was, now in pairs]
    adjusted = iter(adjusted_p_values([p for p in p_values if p is not None]))
    for (label, was, now), p in zip(pairs, p_values, strict=True):
        known = was or now
        assert known is not None
        words = [_answers(finding) if finding else "gone" for finding in (was, now)]
        verdict = words[0] if words[0] == words[1] else " → ".join(words)
        values = [measured(finding) if finding else "no such finding" for finding in (was, now)]
        shown = _shown(None if p is None else float(next(adjusted)))
        yield label, f"{known.attack}.{known.metric}", *values, shown, verdict


def _answers(finding: FindingResult) -> str:
    """`leak; claim refuted`: what leaked, and what it says about the claim where there is one."""
    silent = finding.claim in (OnClaim.NOTHING_CLAIMED, OnClaim.UNKNOWN)
    return str(finding.leaked) if silent else f"{finding.leaked}; claim {finding.claim}"


def _same_metric(
    a: ReleaseResult, b: ReleaseResult
) -> Iterator[tuple[FindingResult | None, FindingResult | None]]:
    ones, others = ({(f.attack, f.metric): f for f in r.findings} for r in (a, b))
    for name in dict.fromkeys([*ones, *others]):
        was, now = ones.get(name), others.get(name)
        if any(finding is not None and finding.value is not None for finding in (was, now)):
            yield was, now


def _two_sided(was: FindingResult | None, now: FindingResult | None, alike: bool) -> float | None:
    before, after = (metric_of(f) if f is not None else None for f in (was, now))
    if before is None or after is None:
        return None
    if not alike:  # the secrets may differ, so their outcomes cannot be paired
        before = before.unpaired
    return _doubled(increase_test.p_value(before, after), increase_test.p_value(after, before))


def _doubled(up: float | None, down: float | None) -> float | None:
    """The two-sided p-value of two one-sided ones."""
    return None if up is None or down is None else min(1.0, 2 * min(up, down))


def _shown(p: float | None) -> str:
    return "" if p is None else f"{p:.2g}"
