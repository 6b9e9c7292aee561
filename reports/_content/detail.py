"""The section of one release: its claim, its budget, its utility and its leaks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit.results import badge, words
from audit.results.badge import Badge
from audit.results.schema import Control, FindingResult, ReleaseResult, SessionResult
from reports._content import claims, verdicts, wording
from reports._content.releases import NamedRelease, by_attack
from reports._content.table import Pair, Table

_FEW = 3  # findings of an attack that may stand open
_LEAP = 100  # times an even share of ε


@dataclass(frozen=True)
class Note:
    """One finding in full."""

    title: str
    sentence: str
    leaked: str
    claim: str
    facts: list[Pair]


@dataclass(frozen=True)
class Group:
    """All findings of one attack. open: whether they are few, and one of them alarms."""

    attack: str
    tally: str
    notes: list[Note]
    open: bool


@dataclass(frozen=True)
class Detail:
    """All that is known of one release. alarming: an audited one that is not quiet.

    published: ε as published, where that differs from the claim.
    """

    name: str
    anchor: str
    role: str
    reference: bool
    badge: str
    alarming: bool
    claim: str
    theorem: str
    published: str
    conditions: list[str]
    facts: list[Pair]
    spent: str
    sessions: Table
    utility: Table
    groups: list[Group]


def detail(one: NamedRelease, seeds: str | None = None) -> Detail:
    """Describe everything that is known of one release. seeds: of a setting of a sweep."""
    release, verdict = one.release, badge.of_release(one.release)
    return Detail(
        name=one.name,
        anchor=one.anchor,
        role=release.role,
        reference=release.reference,
        badge=verdict,
        alarming=not release.reference and verdict != Badge.NONE_FOUND,
        claim=wording.claim(release.guarantee),
        theorem=release.guarantee.theorem,
        published=wording.published(release.guarantee),
        conditions=list(release.guarantee.conditions),
        facts=_facts(release, seeds),
        spent=spent(release),
        sessions=_sessions(release),
        utility=_utility(release),
        groups=[_group(name, found, release) for name, found in by_attack(release).items()],
    )


def _group(attack: str, found: Sequence[FindingResult], release: ReleaseResult) -> Group:
    notes: list[Note] = []
    for finding in found:
        _add(notes, finding)
    alarming = not release.reference and any(map(verdicts.alarming, found))
    return Group(
        attack=wording.spelled(attack),
        tally=verdicts.tally(found) or notes[0].leaked,
        notes=notes,
        open=alarming and len(notes) <= _FEW,
    )


def _add(notes: list[Note], finding: FindingResult) -> None:
    """Add a note; findings that were not measured for one reason share a note."""
    note = _note(finding)
    for place, earlier in enumerate(notes if finding.value is None else []):
        if (earlier.sentence, earlier.facts) == (note.sentence, note.facts):
            title = f"{earlier.title}; {note.title.partition(', ')[2]}"
            notes[place] = replace(earlier, title=title)
            return
    notes.append(note)


def _facts(release: ReleaseResult, seeds: str | None) -> list[Pair]:
    guarantee = release.guarantee
    facts = [
        ("Seed", str(release.seed)) if seeds is None else ("Seeds", seeds),
        ("Parameters", wording.setting(release.parameters)),
    ]
    if published := wording.published(guarantee):
        facts.append(("Published ε", published))
    if guarantee.teachers_per_user:
        facts.append(("Teachers per user", _teachers(guarantee.teachers_per_user)))
    return facts + [_phrases(table) for table in guarantee.phrases]


def _teachers(histogram: dict[int, int]) -> str:
    """Describe how many users are in the data of 1, 2, … teachers."""
    parts = [f"{n}: {words.integer(users)} users" for n, users in histogram.items()]
    return f"{', '.join(parts)}; for the auditor only: it is private"


def _phrases(table: dict[str, Any]) -> Pair:
    """Describe ε over a list of phrases, for one relation."""
    mean, least, most = (words.epsilon(float(table[k])) for k in ("mean", "minimum", "maximum"))
    return (
        f"ε of phrases ({table['relation']})",
        f"mean {mean} nats per phrase, {least} to {most}, {words.share(table['below_mean'])} of "
        f"{table['n']:,} phrases below it, δ = {words.number(table['delta'])}; for the auditor "
        "only: how many records hold a phrase is private",
    )


def spent(release: ReleaseResult) -> str:
    """Describe the budget spent and promised; empty where there is no ledger."""
    guarantee = release.guarantee
    ledgers = [(max(s.epsilon_spent), s) for s in release.sessions if s.epsilon_spent]
    if not ledgers:
        return ""
    most, session = max(ledgers, key=lambda pair: pair[0])
    scope = wording.per_unit(guarantee.unit, guarantee.relation)
    sentence = f"Most spent in one session: ε = {words.number(most)} nats {scope}, "
    sentence += f"by the {wording.spelled(session.purpose)} session, "
    epsilon = wording.finite(guarantee)
    if epsilon is None:
        return sentence + f"where the promise is {words.epsilon(guarantee.epsilon)}."
    promised = f"of ε = {words.epsilon(epsilon)} promised"
    if epsilon > 0:
        promised += f" ({words.share(most / epsilon)})"
    sentence = f"{sentence}{promised}. Sessions compose: their spending adds up."
    if accounts := [one for one in release.sessions if one.silent]:
        sentence += _silence(accounts)
    if not session.epsilon_local:
        return sentence
    ends = (min(session.epsilon_local), max(session.epsilon_local))
    low, high = map(words.number, ends)
    return (
        f"{sentence} On this data set the same queries cost {low} to {high} nats a part: a "
        "data-dependent figure, private itself, for the auditor only."
    )


def _silence(sessions: Sequence[SessionResult]) -> str:
    """Describe the parts excluded by accounts in sessions, and what of these is private."""
    most = max(sessions, key=lambda session: sum(session.silent))
    quiet, parts = sum(n > 0 for n in most.silent), len(most.silent)
    silence = "No part was silent in any query"
    if quiet:
        silence = (
            f"Most silence in one session: {quiet:,} of {parts:,} parts in up to "
            f"{max(most.silent):,} queries, {sum(most.silent):,} of {parts * most.answered:,} "
            f"shares, in the {wording.spelled(most.purpose)} session"
        )
    return (
        f" {silence}. What a part's own account was charged, and when it was silent, depends on "
        "the data: it is private, for the auditor only."
    )


def _sessions(release: ReleaseResult) -> Table:
    unit = release.guarantee.unit
    head = ["Session", "Queries", "Answered", "Allowed", "Left", "STOP at query"]
    head.append(f"ε spent in nats, least to most spent {unit}")
    rows = [_session(session) for session in release.sessions]
    if any(session.epsilon_local for session in release.sessions):
        head.append(f"On this data set, in nats, largest of any {unit}; data-dependent, private")
        for row, session in zip(rows, release.sessions, strict=True):
            local = session.epsilon_local
            row.append(words.number(max(local)) if local else "not worked out")
    return Table(" ".join(["Sessions.", *_leaps(release)]).rstrip("."), head, rows)


def _leaps(release: ReleaseResult) -> Iterator[str]:
    """Explain each STOP by one query that would have cost far more than an even share of ε."""
    epsilon = release.guarantee.epsilon
    for s in release.sessions:
        share = epsilon / s.budget if epsilon and s.budget else 0.0
        if share and s.stop_charge and s.stop_charge > _LEAP * share:
            times = words.number(s.stop_charge / share)
            yield (
                f"{wording.spelled(s.purpose)}: the query at STOP would have cost part "
                f"{s.stop_part} {words.number(s.stop_charge)} nats, {times} times an even share "
                "of ε, as happens where an answer hangs on what one part alone knows."
            )


def _session(session: SessionResult) -> list[str]:
    spent_by = sorted(session.epsilon_spent)
    ends = [words.number(value) for value in dict.fromkeys([*spent_by[:1], *spent_by[-1:]])]
    return [
        wording.spelled(session.purpose),
        words.integer(session.queries),
        words.integer(session.answered),
        "unlimited" if session.budget is None else words.integer(session.budget),
        "unlimited" if session.remaining is None else words.integer(session.remaining),
        "not reached" if session.stopped_at is None else words.integer(session.stopped_at),
        " to ".join(ends) or "no ledger",
    ]


def _utility(release: ReleaseResult) -> Table:
    rows = []
    methods: dict[str, list[str]] = {}
    for name, measure in release.utility.items():
        method = f"{measure.method}, {words.share(measure.confidence)}"
        methods.setdefault(method, []).append(wording.spelled(name))
        answered = "all" if measure.answered is None else words.integer(measure.answered)
        rows.append(
            [
                wording.spelled(name),
                wording.value(measure),
                measure.unit,
                words.integer(measure.n),
                answered,
            ]
        )
    intervals = "; ".join(f"{', '.join(names)}: {method}" for method, names in methods.items())
    shares = {m.share for m in release.utility.values() if m.share is not None}
    where = "".join(f", at its best step, after {words.share(s)} of the training" for s in shares)
    head = ["Measure", "Value [interval]", "Unit", "n", "Tokens answered"]
    return Table(f"Utility on held-out text{where}. Intervals of {intervals}", head, rows)


def _note(finding: FindingResult) -> Note:
    unit = finding.unit
    sides = "one-sided" if finding.sides == 1 else "two-sided"
    facts = [
        ("Measured", _measured(finding)),
        ("Twins", _control(finding.control, unit) or "none measured"),
        ("Blind", _control(finding.blind, unit)),
        ("Chance", "unknown" if finding.chance is None else words.quantity(finding.chance, unit)),
        ("Access", finding.access),
        ("p-value", f"{words.p_value(finding.p_value)} ({sides}, unadjusted)"),
        ("Power", _power(finding)),
        ("Empirical ε", claims.explained(finding.epsilon_lower)),
        ("Test of the claim", _claim_test(finding)),
    ]
    if finding.value is None:
        facts = [("Access", finding.access)]
    if finding.stronger_than_release:
        facts.append(("Standing", "reads more than the release gives: no evidence on the claim"))
    present = [(term, value) for term, value in facts if value]
    sentence = f"{finding.sentence} {finding.claim_sentence}".strip()
    answers = verdicts.leaked(finding), verdicts.claim(finding)
    return Note(wording.measurement(finding), sentence, *answers, present)


def _claim_test(finding: FindingResult) -> str:
    """Describe the test of the claim on its own trade-off curve; empty where there is none."""
    test = finding.claim_test
    if test is None:
        return ""
    noise, at_most = test.noise_at_most, ""
    if noise is not None:
        most = "not limited" if math.isinf(noise) else f"at most {words.at_most(noise)} (95 %)"
        at_most = f"; if of this family, noise multiplier {most}"
    needed = "no number" if test.critical is None else f"{test.critical:,}"
    return (
        f"{test.mechanism}: {test.v:,} of {test.r:,} guesses right over {test.m:,} coins, "
        f"p = {words.p_value(test.p_value)}; {needed} right would refute it{at_most}"
    )


def _measured(finding: FindingResult) -> str:
    text = wording.value(finding)
    if finding.value is None:
        return text
    trials, level = wording.counted(finding.k, finding.n), words.share(finding.confidence)
    return f"{text}, {finding.unit}; {trials}; {finding.method}, {level}"


def _control(control: Control | None, unit: str) -> str:
    if control is None:
        return ""
    return f"{wording.beside(control, unit)}; {wording.counted(control.k, control.n)}"


def _power(finding: FindingResult) -> str:
    power = finding.power
    could = []
    if power.smallest_rate is not None:
        could.append(f"a {finding.unit} of {words.quantity(power.smallest_rate, finding.unit)}")
    if power.largest_epsilon is not None:
        most = words.at_least(power.largest_epsilon)
        could.append(f"that a claim of ε = {most} nats or less for the planted user is false")
    if not could:
        return f"not computed for n = {words.integer(power.n)}"
    level = words.share(power.confidence)
    return f"n = {words.integer(power.n)} could have shown {' and '.join(could)} ({level})"


def costs(releases: Sequence[NamedRelease]) -> Table:
    """List what each release cost."""
    rows = [
        [
            one.name,
            words.integer(one.release.cost.train_tokens),
            words.integer(one.release.cost.queries),
            words.number(one.release.cost.seconds),
        ]
        for one in releases
    ]
    return Table("Cost", ["Release", "Tokens trained on", "Queries", "Seconds"], rows)
