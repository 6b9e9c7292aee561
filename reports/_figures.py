"""The figures, drawn once: how much leaked, what the model is still good for, what was spent.

Each figure is a narrow drawing that is read as well on a phone as in a column of print.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from audit.results.schema import FindingResult, ReleaseResult, Results
from reports import _draw, _epsilon, _exposure, _roc, _words
from reports._detail import spent
from reports._figure import Figure, Table, pieces
from reports._summary import quoted

MOST_LINES = 12
MOST_SESSIONS = 6
_NOT_MEASURED = "not measured"


def draw(results: Results, names: list[str]) -> list[Figure]:
    """All figures this run has data for."""
    releases = results.releases
    return [
        *_leaks(results, names),
        *_epsilon.figure(releases, names),
        *_exposure.figures(releases, names),
        *_roc.figures(releases, names),
        *_perplexities(results, names),
        *_budgets(results, names),
    ]


def _leaks(results: Results, names: list[str]) -> Iterator[Figure]:
    """The measures that page one quotes; all others stand in the tables of the attacks."""
    subjects = [r for r in results.releases if not r.reference] or results.releases
    found = [release.findings[i] for release in subjects for i in quoted(release)]
    kinds = dict.fromkeys((f.attack, f.metric, f.unit) for f in found)
    for index, (attack, metric, unit) in enumerate(kinds):
        title = f"{_words.words(attack)}: {_words.metric(attack, metric)}"
        lines, rows = [], []
        for release, name in zip(results.releases, names, strict=True):
            finding = _found(release, attack, metric, unit)
            lines.append(_leak_line(release, name, finding, unit))
            rows.append(_leak_row(name, finding, unit))
        scale = _draw.scale_of(lines, unit)
        for suffix, piece in pieces(len(lines), MOST_LINES):
            head = ["Release", "Planted [interval]", "Twins [interval]", "Blind [interval]"]
            yield Figure(
                title=f"{title}{suffix}",
                caption="Lines are intervals. Twins were never trained on.",
                alternative=_alternative(title + suffix, unit, rows[piece]),
                svg=_draw.rows(lines[piece], scale, unit, True, f"leak{index}-{piece.start}"),
                table=Table(f"{title}, {unit}{suffix}", [*head, "Chance", "Verdict"], rows[piece]),
            )


def _found(release: ReleaseResult, attack: str, metric: str, unit: str) -> FindingResult | None:
    for finding in release.findings:
        if (finding.attack, finding.metric, finding.unit) == (attack, metric, unit):
            return finding
    return None


def _leak_line(
    release: ReleaseResult, name: str, finding: FindingResult | None, unit: str
) -> _draw.Line:
    if finding is None or finding.value is None:
        return _draw.Line(name, _NOT_MEASURED, None, None, release.reference)
    control, blind = finding.control, finding.blind
    return _draw.Line(
        label=name,
        note=_words.measured(finding.value, finding.ci, unit),
        value=finding.value,
        bounds=finding.ci,
        reference=release.reference,
        twin=None if control is None else control.value,
        twin_bounds=None if control is None else control.ci,
        blind=None if blind is None else blind.value,
        blind_bounds=None if blind is None else blind.ci,
        chance=finding.chance,
    )


def _leak_row(name: str, finding: FindingResult | None, unit: str) -> list[str]:
    if finding is None:
        return [name, _NOT_MEASURED, "none", "none", "unknown", "not measured"]
    beside = [
        "none" if side is None else _words.measured(side.value, side.ci, unit)
        for side in (finding.control, finding.blind)
    ]
    chance = "unknown" if finding.chance is None else _words.quantity(finding.chance, unit)
    planted = _words.measured(finding.value, finding.ci, unit)
    return [name, planted, *beside, chance, finding.verdict]


def _alternative(title: str, unit: str, rows: list[list[str]]) -> str:
    told = [f"{row[0]} {row[1]}, twins {row[2]}, blind {row[3]}" for row in rows]
    return f"{title} in {unit}, by release. {'; '.join(told)}."


def _perplexities(results: Results, names: list[str]) -> Iterator[Figure]:
    measures = [release.utility.get("perplexity") for release in results.releases]
    if all(measure is None for measure in measures):
        return
    lines, rows = [], []
    for release, name, measure in zip(results.releases, names, measures, strict=True):
        if measure is None:
            lines.append(_draw.Line(name, _NOT_MEASURED, None, None, release.reference))
            rows.append([name, _NOT_MEASURED, "—"])
            continue
        every = measure.answered is None
        answered = "all answered" if every else f"{_words.count(measure.answered)} answered"
        text = _words.measured(measure.value, measure.ci, measure.unit)
        lines.append(
            _draw.Line(name, text, measure.value, measure.ci, release.reference, aside=answered)
        )
        rows.append([name, text, answered])
    told = "Answered: tokens answered before STOP."
    if not any(measure and measure.answered is not None for measure in measures):
        lines = [dataclasses.replace(line, aside="") for line in lines]
        told = "Every token was answered."
    title = "Perplexity on held-out text"
    scale = _draw.scale_of(lines, "perplexity")
    for suffix, piece in pieces(len(lines), MOST_LINES):
        listed = "; ".join(f"{row[0]} {row[1]}, {row[2]}" for row in rows[piece])
        yield Figure(
            title=title + suffix,
            caption=f"Lower is better. {told}",
            alternative=f"{title} by release{suffix}. {listed}.",
            svg=_draw.rows(lines[piece], scale, "perplexity", False, f"use-{piece.start}"),
            table=Table(title + suffix, ["Release", "Value [interval]", "Answered"], rows[piece]),
        )


def _budgets(results: Results, names: list[str]) -> Iterator[Figure]:
    for index, (release, name) in enumerate(zip(results.releases, names, strict=True)):
        sessions = [s for s in release.sessions if s.spent_curve]
        if not sessions:
            continue
        guarantee = release.guarantee
        finite = guarantee.epsilon is not None and math.isfinite(guarantee.epsilon)
        scope = _words.per_unit(guarantee.unit, guarantee.relation)
        promised = f"promised: ε = {_words.epsilon(guarantee.epsilon)} nats {scope}"
        if not finite:
            promised = f"promised: {_words.epsilon(guarantee.epsilon)}"
        curves = [
            _draw.Curve(_words.words(s.purpose), s.spent_curve, s.stopped_at)
            for s in sessions[:MOST_SESSIONS]
        ]
        rows = [
            [_words.words(s.purpose), _words.count(s.spent_curve[-1][0]),
             _words.number(s.spent_curve[-1][1]), promised,
             "not reached" if s.stopped_at is None else f"at query {_words.count(s.stopped_at)}"]
            for s in sessions
        ]  # fmt: skip
        title = f"Budget spent by {name}"
        left_out = len(sessions) - len(curves)
        extra = f" {left_out} more sessions stand in the table." if left_out else ""
        yield Figure(
            title=title,
            caption=spent(release) + extra,
            alternative=f"{title} over queries, in nats; {promised}. {spent(release)}",
            svg=_draw.curves(
                curves,
                guarantee.epsilon if finite else None,
                promised,
                guarantee.unit,
                f"spent-{index}",
            ),
            table=Table(title, ["Session", "Queries", "ε spent, nats", "Promise", "STOP"], rows),
        )
