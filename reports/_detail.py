"""The section of one release: what it is, what it spent, what it is good for, what leaked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from audit.results.schema import Control, FindingResult, ReleaseResult, SessionResult
from reports import _epsilon, _words
from reports._figure import Table
from reports._summary import measurement, tally

Pair = tuple[str, str]


@dataclass(frozen=True)
class Note:
    """One finding in full: its sentence, its verdict and the facts behind it."""

    title: str
    sentence: str
    verdict: str
    facts: list[Pair]


@dataclass(frozen=True)
class Group:
    """All findings of one attack."""

    attack: str
    tally: str
    notes: list[Note]


@dataclass(frozen=True)
class Detail:
    """Everything known of one release."""

    name: str
    anchor: str
    role: str
    reference: bool
    claim: str
    theorem: str
    conditions: list[str]
    facts: list[Pair]
    spent: str
    sessions: Table
    utility: Table
    groups: list[Group]


def detail(release: ReleaseResult, name: str, anchor: str) -> Detail:
    """One release, laid out in words."""
    return Detail(
        name=name,
        anchor=anchor,
        role=release.role,
        reference=release.reference,
        claim=_words.claim(release.guarantee),
        theorem=release.guarantee.theorem,
        conditions=release.guarantee.conditions,
        facts=_facts(release),
        spent=spent(release),
        sessions=_sessions(release),
        utility=_utility(release),
        groups=_groups(release.findings),
    )


def _groups(findings: list[FindingResult]) -> list[Group]:
    by_attack: dict[str, list[FindingResult]] = {}
    for finding in findings:
        by_attack.setdefault(finding.attack, []).append(finding)
    return [
        Group(_words.words(attack), tally(found) or found[0].verdict, _notes(found))
        for attack, found in by_attack.items()
    ]


def _notes(found: list[FindingResult]) -> list[Note]:
    """One note a finding; those that were not measured, for the same reason, share one."""
    notes: list[Note] = []
    shared: dict[str, int] = {}
    for finding in found:
        note = _note(finding)
        why = f"{note.sentence} {note.facts}"
        if finding.value is None and why in shared:
            also = f"{notes[shared[why]].title}; {note.title.partition(', ')[2]}"
            notes[shared[why]] = replace(note, title=also)
            continue
        if finding.value is None:
            shared[why] = len(notes)
        notes.append(note)
    return notes


def _facts(release: ReleaseResult) -> list[Pair]:
    guarantee = release.guarantee
    facts = [
        ("Seed", str(release.seed)),
        ("Parameters", _words.setting(release.parameters)),
    ]
    if guarantee.published_epsilon is not None:
        scope = _words.per_unit(guarantee.unit, guarantee.relation)
        value = _words.epsilon(guarantee.published_epsilon)
        facts.append(("Published ε", f"{value} nats {scope}, as published; not the claim"))
    if guarantee.teachers_per_user:
        facts.append(("Teachers per user", _teachers(guarantee.teachers_per_user)))
    return facts + [_phrases(table) for table in guarantee.phrases]


def _teachers(histogram: dict[int, int]) -> str:
    """How many users so many teachers hear."""
    parts = [f"{n}: {_words.count(users)} users" for n, users in histogram.items()]
    return f"{', '.join(parts)}; for the auditor only: it is private"


def _phrases(table: dict[str, Any]) -> Pair:
    """ε over a list of phrases, for one relation."""
    mean, least, most = (_words.epsilon(float(table[k])) for k in ("mean", "minimum", "maximum"))
    return (
        f"ε of phrases ({table['relation']})",
        f"mean {mean} nats per phrase, {least} to {most}, {_words.share(table['below_mean'])} of "
        f"{_words.count(table['n'])} phrases below it, δ = {_words.number(table['delta'])}; for "
        "the auditor only: how many hold a phrase is private",
    )


def spent(release: ReleaseResult) -> str:
    """Budget spent against budget promised, in one sentence; empty where none is kept."""
    guarantee = release.guarantee
    ledgers = [(max(s.epsilon_spent), s) for s in release.sessions if s.epsilon_spent]
    if not ledgers:
        return ""
    most, session = max(ledgers, key=lambda pair: pair[0])
    scope = _words.per_unit(guarantee.unit, guarantee.relation)
    sentence = f"Most spent in one session: ε = {_words.number(most)} nats {scope}, "
    sentence += f"by the {_words.words(session.purpose)} session, "
    if guarantee.epsilon is None or math.isinf(guarantee.epsilon):
        return sentence + f"where the promise is {_words.epsilon(guarantee.epsilon)}."
    promised = f"of ε = {_words.epsilon(guarantee.epsilon)} promised"
    if guarantee.epsilon > 0:
        promised += f" ({_words.share(most / guarantee.epsilon)})"
    sentence = f"{sentence}{promised}. Sessions compose: what several spend adds up."
    if not session.epsilon_local:
        return sentence
    ends = (min(session.epsilon_local), max(session.epsilon_local))
    low, high = map(_words.number, ends)
    return (
        f"{sentence} On this data set the same queries cost {low} to {high} nats a part: a "
        "data-dependent figure, private itself, for the auditor only."
    )


def _sessions(release: ReleaseResult) -> Table:
    unit = release.guarantee.unit
    head = ["Session", "Queries", "Answered", "Allowed", "Left", "STOP at query"]
    head.append(f"ε spent in nats, least to most spent {unit}")
    return Table("Sessions", head, [_session(session) for session in release.sessions])


def _session(session: SessionResult) -> list[str]:
    spent_by = sorted(session.epsilon_spent)
    ends = [_words.number(value) for value in dict.fromkeys([*spent_by[:1], *spent_by[-1:]])]
    return [
        _words.words(session.purpose),
        _words.count(session.queries),
        _words.count(session.answered),
        "unlimited" if session.budget is None else _words.count(session.budget),
        "unlimited" if session.remaining is None else _words.count(session.remaining),
        "not reached" if session.stopped_at is None else _words.count(session.stopped_at),
        " to ".join(ends) or "not kept",
    ]


def _utility(release: ReleaseResult) -> Table:
    rows, methods = [], []
    for name, measure in release.utility.items():
        methods.append(f"{measure.method}, {_words.share(measure.confidence)}")
        answered = "all" if measure.answered is None else _words.count(measure.answered)
        rows.append(
            [
                _words.words(name),
                _words.measured(measure.value, measure.ci, measure.unit),
                measure.unit,
                _words.count(measure.n),
                answered,
            ]
        )
    head = ["Measure", "Value [interval]", "Unit", "n", "Tokens answered"]
    caption = "Utility on held-out text"
    if len(set(methods)) == 1:
        caption += f"; intervals: {methods[0]}"
    elif methods:
        head.append("Interval")
        rows = [[*row, method] for row, method in zip(rows, methods, strict=True)]
    return Table(caption, head, rows)


def _note(finding: FindingResult) -> Note:
    unit = finding.unit
    sides = "one-sided" if finding.sides == 1 else "two-sided"
    facts = [
        ("Measured", _measured(finding)),
        ("Twins", _control(finding.control, unit) or "none measured"),
        ("Blind", _control(finding.blind, unit)),
        ("Chance", "unknown" if finding.chance is None else _words.quantity(finding.chance, unit)),
        ("Access", finding.access),
        ("p-value", f"{_words.p_value(finding.p_value)} ({sides}, unadjusted)"),
        ("Power", _power(finding)),
        ("Empirical ε", _epsilon.explained(finding.epsilon_lower)),
    ]
    if finding.value is None:
        facts = [("Access", finding.access)]
    if finding.stronger_than_release:
        facts.append(("Standing", "reads more than the release gives: no evidence on the claim"))
    told = [(term, value) for term, value in facts if value]
    return Note(measurement(finding), finding.sentence, finding.verdict, told)


def _measured(finding: FindingResult) -> str:
    text = _words.measured(finding.value, finding.ci, finding.unit)
    if finding.value is None:
        return text
    level = _words.share(finding.confidence)
    trials = f"{_words.count(finding.k)} of " if finding.k is not None else "n = "
    return f"{text}, {finding.unit}; {trials}{_words.count(finding.n)}; {finding.method}, {level}"


def _control(control: Control | None, unit: str) -> str:
    if control is None:
        return ""
    text = _words.measured(control.value, control.ci, unit)
    trials = f"{_words.count(control.k)} of " if control.k is not None else "n = "
    return f"{text}; {trials}{_words.count(control.n)}"


def _power(finding: FindingResult) -> str:
    power = finding.power
    could = []
    if power.smallest_rate is not None:
        could.append(f"a {finding.unit} of {_words.quantity(power.smallest_rate, finding.unit)}")
    if power.largest_epsilon is not None:
        could.append(
            f"an ε of at most {_words.number(power.largest_epsilon)} nats for the planted user"
        )
    if not could:
        return f"not computed for n = {_words.count(power.n)}"
    level = _words.share(power.confidence)
    return f"n = {_words.count(power.n)} could have shown {' and '.join(could)} ({level})"


def costs(releases: list[ReleaseResult], names: list[str]) -> Table:
    """What each release cost."""
    rows = [
        [
            name,
            _words.count(release.cost.train_tokens),
            _words.count(release.cost.queries),
            _words.number(release.cost.seconds),
        ]
        for release, name in zip(releases, names, strict=True)
    ]
    return Table("Cost", ["Release", "Tokens trained on", "Queries", "Seconds"], rows)
