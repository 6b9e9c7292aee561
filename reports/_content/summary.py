"""The table of page one: what each attack found in each audited release, the worst first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from audit.core.terms import Leaked, OnClaim, Shown
from audit.results import badge, quoting, words
from audit.results.measurement import Link
from audit.results.schema import (
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    ReleaseResult,
    Results,
)
from reports._content import legend, unmeasured, usefulness, verdicts, wording
from reports._content.closing import closing
from reports._content.strip import Strip, strip
from reports._content.worst import rank

MOST_BLOCKS = 6  # audited releases, each with a row an attack; of more there is one table
MOST_SPELLED = 2  # audited releases whose conditions are spelled out
_LESS = "less likely"  # of twins, by ranks


@dataclass(frozen=True)
class Value:
    """A measured value, its interval, and a note."""

    text: str
    interval: str
    aside: str = ""


@dataclass(frozen=True)
class Row:
    """The finding that an attack is quoted by; certainty: the ε it shows or could have shown.

    target: fragment of the section that has all measures of its attack. leaked, claim: empty for
    what is no attack. strip: where the value lies between chance and certain. ends: whether the
    answers could end the session, for which its interval is wider.
    """

    measurement: str
    target: str
    aside: str
    measured: Value
    certainty: str
    controls: list[Value]
    leaked: str
    claim: str
    strip: Strip | None = None
    ends: bool = False


@dataclass(frozen=True)
class Block:
    """One release: its claim above its findings.

    conditions: of "no leak found", a line each; the first one sums them up.
    """

    name: str
    role: str
    claim: str
    anchor: str
    badge: str
    rows: list[Row]
    conditions: list[str]


@dataclass(frozen=True)
class Entry:
    """The finding of one attack in one setting: a mark, a value, and the measure that it is of."""

    mark: str
    value: str
    measure: str


@dataclass(frozen=True)
class Line:
    """One setting of an overview: its badge, and a field for each attack."""

    name: str
    claim: str
    anchor: str
    badge: str
    fields: list[list[Entry]]
    kept: str


@dataclass(frozen=True)
class Overview:
    """Settings × attacks, where a row for each attack of each would be too long."""

    attacks: list[str]
    lines: list[Line]


@dataclass(frozen=True)
class Summary:
    """The table; controls: the heads of its columns of controls, the twins first.

    legend: what its marks and bands mean, of those that it has.
    """

    controls: list[str]
    blocks: list[Block]
    note: str
    overview: Overview = field(default_factory=lambda: Overview([], []))
    legend: list[str] = field(default_factory=list)


def summary(results: Results, names: list[str]) -> Summary:
    """Build the table: of few releases a row for each attack, of many a field."""
    releases = results.releases
    places = _shown(releases)
    many = results.sweep is not None or len(places) > MOST_BLOCKS
    present = (
        []
        if many
        else [c for c in legend.CONTROLS if any(control_of(r, c[0], releases) for r in releases)]
    )
    heads = ["Twins", *(head for _, head, _ in present)]
    roles = [role for role, *_ in present]
    blocks = [] if many else [_block(i, releases, names[i], roles) for i in places]
    notes = [legend.note(releases, heads), *unmeasured.sentences(releases, names)]
    seen = _overview(releases, names, places) if many else Overview([], [])
    return Summary(heads, blocks, " ".join(notes), seen, legend_of(blocks, heads))


def legend_of(blocks: Sequence[Block], heads: Sequence[str]) -> list[str]:
    """Explain what the rows of these blocks have beside their figures."""
    rows = [row for block in blocks for row in block.rows]
    strips = [row.strip for row in rows if row.strip is not None]
    blind = any(one.aside for row in rows for one in row.controls)
    ranked = any(row.controls and row.controls[0].text == _LESS for row in rows)
    return legend.legend(heads, strips, blind, any(row.ends for row in rows), ranked)


def _shown(releases: Sequence[ReleaseResult]) -> list[int]:
    """Choose the releases to show, the worst first: of references only refuted claims."""
    alone = all(release.reference for release in releases)
    broken = (not r.reference or alone or r.claim == OnClaim.REFUTED for r in releases)
    places = [i for i, chosen in enumerate(broken) if chosen]
    return sorted(places, key=lambda i: (releases[i].reference, rank(releases[i])))


def _block(index: int, releases: Sequence[ReleaseResult], name: str, roles: list[str]) -> Block:
    release = releases[index]
    found = [release.findings[i] for i in quoted_with_insiders(release)]
    rows = [_row(release, f, roles, releases) for f in sorted(found, key=badness)]
    if rows:
        rows += [_utility(release, roles, releases)] if "perplexity" in release.utility else []
    return Block(
        name=name,
        role=wording.clip(release.role, 60),
        claim=wording.claim(release.guarantee),
        anchor=anchor(index),
        badge=badge.of_release(release),
        rows=rows,
        conditions=conditions(release, releases),
    )


def badness(finding: FindingResult) -> int:
    """Order findings by their badge, the worst first; what was not measured comes last."""
    refuted = finding.claim == OnClaim.REFUTED
    sought = finding.charge_test is None and finding.value is not None
    known = sought or finding.leaked.detected or refuted
    return badge.of_finding(finding).rank if known else len(badge.Badge)


def _utility(release: ReleaseResult, roles: list[str], releases: Sequence[ReleaseResult]) -> Row:
    """Make the row of usefulness: public is 0 %, undefended 100 % of what training gains."""
    measure = release.utility["perplexity"]
    share, between = usefulness.kept(release, releases), usefulness.interval(release, releases)
    beside = [control_of(release, role, releases) for role in roles]
    values = [None if one is None else one.utility.get("perplexity") for one in beside]
    text = words.quantity(measure.value, measure.unit)
    return Row(
        measurement="usefulness, perplexity",
        target="",
        aside="lower is better",
        measured=Value(text, words.interval(measure.ci, measure.unit)),
        certainty="" if share is None else usefulness.sentence(share, between),
        controls=[Value("—", "")]
        + [
            Value("—", "") if v is None else Value(words.quantity(v.value, v.unit), "")
            for v in values
        ],
        leaked="",
        claim="",
        strip=None if share is None else Strip("", min(1.0, max(0.0, share)), None, None, None),
    )


def _overview(
    releases: Sequence[ReleaseResult], names: Sequence[str], places: Sequence[int]
) -> Overview:
    attacks = attacks_of([releases[i] for i in places])
    lines = []
    for i in places:
        release = releases[i]
        found = [release.findings[j] for j in quoted_with_insiders(release)]
        share = usefulness.kept(release, releases)
        fields = [
            [_entry(f) for f in sorted(found, key=badness) if f.attack == attack]
            for attack in attacks
        ]
        kept = usefulness.written(share)
        line = Line(names[i], wording.claim(release.guarantee), anchor(i),
                    badge.of_release(release), fields, kept)  # fmt: skip
        lines.append(line)
    return Overview([wording.spelled(attack) for attack in attacks], lines)


def _entry(finding: FindingResult) -> Entry:
    refuted = finding.claim == OnClaim.REFUTED
    word = verdicts.claim(finding) if refuted else verdicts.leaked(finding)
    measured = _measured(finding).text if finding.value is not None else ""
    return Entry(word, measured, wording.metric(finding.attack, finding.metric))


def conditions(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> list[str]:
    """State what shows each condition of "no leak found", or why it is not shown.

    The first line sums them up: the first that is missing, or that all are shown. Of more than
    MOST_SPELLED audited releases it stands alone. Beside a leak, what in this run closes it.
    """
    silence = release.silence
    if release.reference or silence is None:
        return []
    links = {"Contact": silence.contact, "Sight": silence.sight, "Reach": silence.reach}
    closes = [wording.clip(line, 240) for line in [closing(release, releases)] if line]
    if silence.sight.state == Shown.NOT_NEEDED:
        shown = silence.contact.state == Shown.SHOWN  # a leak needs no contact to be believed
        return [*([_condition("Contact", silence.contact)] if shown else []), *closes]
    missing = next((n for n, link in links.items() if link.state == Shown.NOT_SHOWN), "")
    some = missing != "Contact" and any(f.leaked == Leaked.NONE_FOUND for f in release.findings)
    partly = " by every measure" if some else ""
    first = _condition(missing, links[missing], partly) if missing else legend.ALL_SHOWN
    if sum(not one.reference for one in releases) > MOST_SPELLED:
        return [first, *closes]
    return [first, *(_condition(n, link) for n, link in links.items() if n != missing), *closes]


def _condition(name: str, link: Link, partly: str = "") -> str:
    state = "shown" if link.state == Shown.SHOWN else f"not shown{partly}"
    by = f"{link.by[:1].upper()}{link.by[1:]}"
    return wording.clip(f"{name} ({legend.LINKS[name]}): {state}. {by}", 240)


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


def quoted_with_insiders(release: ReleaseResult) -> list[int]:
    """Return the places of `quoted`, and of a leak to insiders that another measure stands for."""
    places = list(quoted(release))
    loud = {release.findings[i].attack for i in places if release.findings[i].leaked.detected}
    inside: dict[str, int] = {}
    for i, finding in enumerate(release.findings):
        if finding.leaked == Leaked.INSIDERS and finding.attack not in loud:
            inside.setdefault(finding.attack, i)
    return sorted([*places, *inside.values()])


def _row(
    release: ReleaseResult,
    finding: FindingResult,
    roles: list[str],
    releases: Sequence[ReleaseResult],
) -> Row:
    beside = [_value_of(control_of(release, role, releases), finding) for role in roles]
    aside = ["insiders only"] if finding.stronger_than_release else []
    aside.append(tally(release, finding.attack))
    undefended = control_of(release, "positive control", releases)
    return Row(
        measurement=measurement(finding),
        target=section(finding.attack, releases),
        aside="; ".join(filter(None, aside)),
        measured=_measured(finding),
        certainty=certainty(finding, release.guarantee),
        controls=[_twins(finding), *beside],
        leaked=verdicts.leaked(finding),
        claim=verdicts.claim(finding),
        strip=None if by_ranks(finding) else strip(finding, undefended),
        ends=finding.cut is not None,
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
    text = _with_unit(words.estimate(finding.value, finding.ci, finding.unit), finding.unit)
    count = f"n = {words.integer(finding.n)}"
    bounds = _bounds(finding, finding.ci)
    if by_ranks(finding):
        return Value("likelier than twins", f"by ranks, {count}")
    return Value(text, ", ".join(filter(None, [bounds, count])))


def _bounds(finding: FindingResult, ci: tuple[float, float] | None) -> str:
    """Write an interval of a finding, marked where answers could end a session."""
    text = words.interval(ci, finding.unit)
    return f"{text}{legend.ENDED}" if text and finding.cut is not None else text


def by_ranks(finding: FindingResult) -> bool:
    """Return whether a leak is one of ranks, whatever the means are: one twin may move theirs."""
    return finding.leaked.detected and finding.test.endswith("likelihoods")


def _with_unit(text: str, unit: str) -> str:
    if unit == words.CHARGES:
        return f"{text} of its charge"
    return f"{text} bits" if unit == "bits" else text


def _twins(finding: FindingResult) -> Value:
    control, blind, unit = finding.control, finding.blind, finding.unit
    if by_ranks(finding) and control is not None:
        return Value(_LESS, f"n = {words.integer(control.n)}")
    seen = "" if blind is None else words.measured(blind.value, blind.ci, unit)
    aside = f"blind {seen}" if seen else ""
    if control is None:
        return Value("" if aside else "—", "", aside)
    estimate = words.estimate(control.value, control.ci, unit)
    return Value(estimate, _bounds(finding, control.ci), aside)


def _value_of(release: ReleaseResult | None, like: FindingResult) -> Value:
    for finding in quoting.alike(like, release):
        if finding.value is not None:
            return Value(
                words.estimate(finding.value, finding.ci, finding.unit),
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
    if finding.leaked.detected:
        return wording.by_chance(finding)
    return ""


def at_least(bound: EpsilonLower) -> str:
    """Write a lower bound with its unit and relation."""
    return f"ε ≥ {words.at_least(bound.value)} nats {wording.per_unit(bound.unit, bound.relation)}"
