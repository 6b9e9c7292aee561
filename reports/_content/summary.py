"""The table of page one: the leaks measured of each audited release, beside the controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.core.terms import Leaked, OnClaim, Shown
from audit.results import quoting, words
from audit.results.measurement import Link
from audit.results.schema import (
    Control,
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    ReleaseResult,
    Results,
)
from reports._content import unmeasured, verdicts, wording
from reports._content.closing import closing
from reports._content.worst import MOST_ROWS

LINES = 25  # of the table, beside a picture of at most ROWS rows; each further one takes two
ROWS = 5
MOST_SPELLED = 2  # audited releases whose conditions are spelled out
# The roles of references, in which "{}" is the audited defense, and their columns.
_CONTROLS = (
    ("positive control of {}", "Unprotected", "its own models without the protection"),
    ("positive control", "Undefended", "a model trained on the text as it is"),
    ("null control", "Public", "a model that never saw the text"),
)


@dataclass(frozen=True)
class Value:
    """A measured value, its interval, and a note."""

    text: str
    interval: str
    aside: str = ""


@dataclass(frozen=True)
class Row:
    """The finding that an attack is quoted by; certainty: the ε it shows or could have shown.

    target: fragment of the section that has all measures of its attack.
    """

    measurement: str
    target: str
    aside: str
    measured: Value
    certainty: str
    controls: list[Value]
    leaked: str
    claim: str


@dataclass(frozen=True)
class Block:
    """One release: its claim above its findings. conditions: of "no leak found", a line each."""

    name: str
    role: str
    claim: str
    anchor: str
    rows: list[Row]
    conditions: list[str]


@dataclass(frozen=True)
class Summary:
    """The table; controls: the heads of its columns of controls, the twins first."""

    controls: list[str]
    blocks: list[Block]
    note: str

    @property
    def lines(self) -> int:
        """The length of the table in lines of print."""
        return sum(1 + len(b.conditions) + 3 * len(b.rows) for b in self.blocks)


def summary(results: Results, names: list[str]) -> Summary:
    """Build a table of at most LINES lines: refuted claims first, then leaks, an attack a row."""
    releases = results.releases
    present = [c for c in _CONTROLS if any(control_of(r, c[0], releases) for r in releases)]
    chosen = _chosen(releases)
    blocks = []
    for index, (release, name) in enumerate(zip(releases, names, strict=True)):
        rows = [
            _row(release, finding, [role for role, *_ in present], releases)
            for j, finding in enumerate(release.findings)
            if (index, j) in chosen
        ]
        if rows or (not release.findings and not release.reference):
            claim, role = wording.claim(release.guarantee), wording.clip(release.role, 60)
            shown = conditions(release, releases)
            blocks.append(Block(name, role, claim, anchor(index), rows, shown))
    heads = ["Twins", *(head for _, head, _ in present)]
    meanings = [f"{head}: {meaning}." for _, head, meaning in present]
    notes = [_note(releases, len(chosen), meanings), *unmeasured.sentences(releases, names)]
    return Summary(heads, blocks, " ".join(notes))


def conditions(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> list[str]:
    """State what shows each condition of "no leak found", or why it is not shown.

    Of more than MOST_SPELLED audited releases, the first missing one of each on one line. Beside a
    leak, what in this run closes it.
    """
    silence = release.silence
    if release.reference or silence is None:
        return []
    links = {"Contact": silence.contact, "Sight": silence.sight, "Reach": silence.reach}
    closes = [wording.clip(line, 240) for line in [closing(release, releases)] if line]
    if sum(not one.reference for one in releases) > MOST_SPELLED:
        missing = (n for n, link in links.items() if link.state == Shown.NOT_SHOWN)
        name = next(missing, "")
        shown = _condition(name, links[name]) if name else "Contact, sight and reach: shown."
        return [shown, *closes]
    if silence.sight.state == Shown.NOT_NEEDED:
        spared = "Sight, reach: not needed beside a leak."
        return [_condition("Contact", silence.contact), spared, *closes]
    return [_condition(name, link) for name, link in links.items()]


def _condition(name: str, link: Link) -> str:
    state = "shown" if link.state == Shown.SHOWN else "not shown"
    return wording.clip(f"{name}: {state}. {link.by[:1].upper()}{link.by[1:]}", 240)


def anchor(index: int) -> str:
    """Name the fragment of a release's section."""
    return f"release-{index + 1}"


def attacks_of(releases: Sequence[ReleaseResult]) -> list[str]:
    """List the attacks of a run, in the order of their sections."""
    return list(dict.fromkeys(f.attack for release in releases for f in release.findings))


def section(attack: str, releases: Sequence[ReleaseResult]) -> str:
    """Name the fragment of an attack's section."""
    return f"attack-{attacks_of(releases).index(attack) + 1}"


def control_of(
    release: ReleaseResult, role: str, releases: Sequence[ReleaseResult]
) -> ReleaseResult | None:
    """Find the reference in this role that is most like an audited release."""
    if release.reference:
        return None
    wanted = role.format(release.defense)
    return max(
        (other for other in releases if other.reference and other.role == wanted),
        key=lambda other: (other.seed == release.seed, other.parameters == release.parameters),
        default=None,
    )


def quoted(release: ReleaseResult) -> Iterator[int]:
    """Return the places of the findings that the attacks are quoted by, one an attack."""
    places: dict[str, list[int]] = {}
    for index, finding in enumerate(release.findings):
        places.setdefault(finding.attack, []).append(index)
    for several in places.values():
        best = quoting.quoted([release.findings[i] for i in several])
        yield next(i for i in several if release.findings[i] is best)


def _chosen(releases: Sequence[ReleaseResult]) -> set[tuple[int, int]]:
    """Choose the findings to show, as (release, finding); of references only refuted claims.

    The worst finding of each release comes first, then refutations, leaks, and the rest.
    """
    alone = all(release.reference for release in releases)
    lines = LINES - 2 * (max(ROWS, min(MOST_ROWS, len(releases))) - ROWS)
    ranked = []
    for i, release in enumerate(releases):
        quotes = [(*mildness(release.findings[j]), place, j)
                  for place, j in enumerate(_with_something(release))]  # fmt: skip
        for later, (mild, milder, place, j) in enumerate(sorted(quotes)):
            if alone or not release.reference or not mild:
                ranked.append((later > 0, mild, milder, place, i, j))
    chosen: set[tuple[int, int]] = set()
    for *_, i, j in sorted(ranked):
        blocks = {i, *(block for block, _ in chosen)}
        heads = sum(1 + len(conditions(releases[one], releases)) for one in blocks)
        if 3 * (1 + len(chosen)) + heads <= lines:
            chosen.add((i, j))
    return chosen


def _with_something(release: ReleaseResult) -> list[int]:
    """Leave out what was not measured, which the headline names, where anything else was."""
    quotes = list(quoted(release))
    found = [j for j in quotes if _known(release.findings[j])]
    return found or quotes


def _known(finding: FindingResult) -> bool:
    answered = finding.leaked.detected or finding.claim == OnClaim.REFUTED
    return finding.value is not None or answered


def mildness(finding: FindingResult) -> tuple[bool, int]:
    """Order findings, worst first.

    First whether it refutes no claim, then 0 for a leak, 1 for a leak to those who read more than
    the release gives, 2 for neither.
    """
    return finding.claim != OnClaim.REFUTED, _MILD.get(finding.leaked, len(_MILD))


_MILD = {Leaked.LEAK: 0, Leaked.INSIDERS: 1}


def _row(
    release: ReleaseResult,
    finding: FindingResult,
    roles: list[str],
    releases: Sequence[ReleaseResult],
) -> Row:
    unit = finding.unit
    beside = [_value_of(control_of(release, role, releases), finding) for role in roles]
    aside = ["insiders only"] if finding.stronger_than_release else []
    aside.append(tally(release, finding.attack))
    return Row(
        measurement=measurement(finding),
        target=section(finding.attack, releases),
        aside="; ".join(filter(None, aside)),
        measured=_measured(finding),
        certainty=certainty(finding, release.guarantee),
        controls=[_twins(finding.control, finding.blind, unit), *beside],
        leaked=verdicts.leaked(finding),
        claim=verdicts.claim(finding),
    )


def measurement(finding: FindingResult) -> str:
    """Name the attack and what it measured."""
    return f"{wording.spelled(finding.attack)}, {wording.metric(finding.attack, finding.metric)}"


def tally(release: ReleaseResult, attack: str) -> str:
    """Count the answers of an attack's measures; empty where there is only one measure."""
    return verdicts.tally([f for f in release.findings if f.attack == attack])


def _measured(finding: FindingResult) -> Value:
    if finding.value is None:
        return Value(verdicts.measured(finding), "")
    text = _with_unit(words.quantity(finding.value, finding.unit), finding.unit)
    count = f"n = {words.integer(finding.n)}"
    bounds = words.interval(finding.ci, finding.unit)
    return Value(text, ", ".join(filter(None, [bounds, count])))


def _with_unit(text: str, unit: str) -> str:
    return f"{text} bits" if unit == "bits" else text


def _twins(control: Control | None, blind: Control | None, unit: str) -> Value:
    seen = "" if blind is None else words.measured(blind.value, blind.ci, unit)
    aside = f"blind {seen}" if seen else ""
    if control is None:
        return Value("" if aside else "—", "", aside)
    return Value(words.quantity(control.value, unit), words.interval(control.ci, unit), aside)


def _value_of(release: ReleaseResult | None, like: FindingResult) -> Value:
    for finding in release.findings if release else ():
        same = (finding.attack, finding.metric, finding.unit)
        if same == (like.attack, like.metric, like.unit) and finding.value is not None:
            return Value(
                words.quantity(finding.value, finding.unit),
                words.interval(finding.ci, finding.unit),
            )
    return Value("—", "")


def certainty(finding: FindingResult, claim: GuaranteeResult) -> str:
    """Describe the ε that a finding shows, or what it could have shown; empty for neither."""
    bound, power = finding.epsilon_lower, finding.power
    if bound is not None and bound.value > 0:
        return f"so {at_least(bound)}"
    if finding.leaked == Leaked.NONE_FOUND and power.detectable_rate is not None:
        return "" if finding.silence is None else finding.silence.reach.by.rstrip(".")
    if (
        finding.leaked == Leaked.NONE_FOUND
        and bound is not None
        and power.largest_epsilon is not None
    ):
        scope = f"nats {wording.per_unit(bound.unit, bound.relation)}"
        if power.largest_epsilon < (claim.epsilon or 0.0):
            most = words.at_most(power.largest_epsilon)
            return f"too weak to refute its claim: it can show at most ε = {most} {scope}"
        return f"could have refuted ε = {words.at_least(power.largest_epsilon)} {scope}"
    return ""


def at_least(bound: EpsilonLower) -> str:
    """Write a lower bound with its unit and relation."""
    return f"ε ≥ {words.at_least(bound.value)} nats {wording.per_unit(bound.unit, bound.relation)}"


def _note(releases: Sequence[ReleaseResult], shown: int, meanings: list[str]) -> str:
    findings = [finding for release in releases for finding in release.findings]
    levels = sorted({finding.confidence for finding in findings})
    confidence = " or ".join(words.share(level) for level in levels) or "95 %"
    sentences = [f"In brackets: intervals at {confidence} confidence."]
    sentences.append(
        "A leak: a test against the coins or against chance rejects, adjusted for all tests of the "
        "release; intervals that overlap do not contradict it."
    )
    if any(finding.stronger_than_release for finding in findings):
        sentences.append("Insiders: they read more than the release gives.")
    sentences.append("Twins: secrets drawn alike and never trained on.")
    if any(finding.blind for finding in findings):
        sentences.append("Blind: a classifier that reads the candidates and no model.")
    sentences += meanings
    if shown < len(findings):
        sentences.append(f"{shown} of {len(findings)} findings are shown; Attacks has all of them.")
    return " ".join(sentences)
