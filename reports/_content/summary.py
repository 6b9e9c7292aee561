"""The table of page one: what each attack found in each audited release, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.terms import Leaked, OnClaim, Shown
from audit.results import badge, quoting, words
from audit.results.schema import (
    FindingResult,
    GuaranteeResult,
    ReleaseResult,
    Results,
)
from audit.results.silence import Link
from reports._content import claims, legend, usefulness, verdicts, wording
from reports._content.closing import closing
from reports._content.releases import NamedRelease, by_attack, rank
from reports._content.strip import Strip, strip
from reports._content.table import Pair

MOST_BLOCKS = 6  # audited releases, each with a row an attack; of more there is one table
MOST_SPELLED = 2  # audited releases whose conditions are spelled out
_LESS = "less likely"  # of twins, by ranks


@dataclass(frozen=True)
class Value:
    """A measured value, its interval, and a note."""

    text: str
    interval: str = ""
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
class Line:
    """One setting of an overview: its badge, and a field for each attack.

    A field holds the findings of the attack: a mark, and what was measured.
    """

    name: str
    claim: str
    anchor: str
    badge: str
    fields: list[list[Pair]]
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
    overview: Overview
    legend: list[str]


def summary(results: Results, shown: Sequence[NamedRelease]) -> Summary:
    """Build the table: of few releases a row for each attack, of many a field."""
    releases, chosen = [one.release for one in shown], _chosen(shown)
    many = results.sweep is not None or len(chosen) > MOST_BLOCKS
    roles = {
        head: role
        for role, head, _ in legend.CONTROLS
        if not many and any(control_of(release, role, releases) for release in releases)
    }
    heads = ["Twins", *roles]
    blocks = [] if many else [_block(one, releases, [*roles.values()]) for one in chosen]
    note = " ".join([legend.note(releases, heads), *legend.unmeasured(shown)])
    overview = _overview(chosen, releases) if many else Overview([], [])
    return Summary(heads, blocks, note, overview, legend_of(blocks, heads))


def legend_of(blocks: Sequence[Block], heads: Sequence[str]) -> list[str]:
    """Explain what the rows of these blocks have beside their figures."""
    rows = [row for block in blocks for row in block.rows]
    strips = [row.strip for row in rows if row.strip is not None]
    blind = any(one.aside for row in rows for one in row.controls)
    ranked = any(row.controls and row.controls[0].text == _LESS for row in rows)
    return legend.legend(heads, strips, blind, any(row.ends for row in rows), ranked)


def _chosen(shown: Sequence[NamedRelease]) -> list[NamedRelease]:
    """Choose the releases of the table, the worst first: of references only refuted claims."""
    alone = all(one.release.reference for one in shown)
    chosen = [
        one
        for one in shown
        if alone or not one.release.reference or one.release.claim == OnClaim.REFUTED
    ]
    return sorted(chosen, key=lambda one: (one.release.reference, rank(one.release)))


def _block(one: NamedRelease, releases: Sequence[ReleaseResult], roles: Sequence[str]) -> Block:
    release = one.release
    rows = [_row(release, finding, roles, releases) for finding in _found(release)]
    if rows and "perplexity" in release.utility:
        rows.append(_utility(release, roles, releases))
    return Block(
        name=one.name,
        role=wording.clip(release.role, 60),
        claim=wording.claim(release.guarantee),
        anchor=one.anchor,
        badge=badge.of_release(release),
        rows=rows,
        conditions=conditions(release, releases),
    )


def _found(release: ReleaseResult) -> list[FindingResult]:
    return sorted(quoted_with_insiders(release), key=badness)


def badness(finding: FindingResult) -> int:
    """Order findings by their badge, the worst first; what was not measured comes last."""
    refuted = finding.claim == OnClaim.REFUTED
    sought = finding.charge_test is None and finding.value is not None
    known = sought or finding.leaked.detected or refuted
    return badge.of_finding(finding).rank if known else len(badge.Badge)


def _utility(
    release: ReleaseResult, roles: Sequence[str], releases: Sequence[ReleaseResult]
) -> Row:
    """Make the row of usefulness: public is 0 %, undefended 100 % of what training gains."""
    measure = release.utility["perplexity"]
    share, between = usefulness.kept(release, releases), usefulness.interval(release, releases)
    beside = [control_of(release, role, releases) for role in roles]
    values = [None if one is None else one.utility.get("perplexity") for one in beside]
    controls = ["—", *("—" if v is None else words.quantity(v.value, v.unit) for v in values)]
    text = words.quantity(measure.value, measure.unit)
    return Row(
        measurement="usefulness, perplexity",
        target="",
        aside="lower is better",
        measured=Value(text, with_count(words.interval(measure.ci, measure.unit), measure.n)),
        certainty="" if share is None else usefulness.sentence(share, between),
        controls=[Value(text) for text in controls],
        leaked="",
        claim="",
        strip=None if share is None else Strip("", min(1.0, max(0.0, share)), None, None, None),
    )


def _overview(chosen: Sequence[NamedRelease], releases: Sequence[ReleaseResult]) -> Overview:
    attacks = attacks_of([one.release for one in chosen])
    lines = [
        Line(
            one.name,
            wording.claim(one.release.guarantee),
            one.anchor,
            badge.of_release(one.release),
            [[_entry(f) for f in _found(one.release) if f.attack == name] for name in attacks],
            usefulness.written(usefulness.kept(one.release, releases)),
        )
        for one in chosen
    ]
    return Overview([wording.spelled(attack) for attack in attacks], lines)


def _entry(finding: FindingResult) -> Pair:
    refuted = finding.claim == OnClaim.REFUTED
    word = verdicts.claim(finding) if refuted else verdicts.leaked(finding)
    measured = _measured(finding).text if finding.value is not None else ""
    return word, f"{measured} {wording.metric(finding.attack, finding.metric)}"


def conditions(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> list[str]:
    """State what shows each condition of "no leak found", or why it is not shown.

    The first line sums them up: the first that is missing, or that all are shown. Of more than
    MOST_SPELLED audited releases it stands alone. Beside a leak: with what it was not found.
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
    first = _condition(missing, links[missing], partly) if missing else _earned(release)
    if sum(not one.reference for one in releases) > MOST_SPELLED:
        return [first, *closes]
    return [first, *(_condition(n, link) for n, link in links.items() if n != missing), *closes]


def _earned(release: ReleaseResult) -> str:
    return legend.EARNED.get(release.leaked, legend.EARNED[Leaked.LEAK])


def _condition(name: str, link: Link, partly: str = "") -> str:
    state = "shown" if link.state == Shown.SHOWN else f"not shown{partly}"
    by = f"{link.by[:1].upper()}{link.by[1:]}"
    return wording.clip(f"{name} ({legend.LINKS[name]}): {state}. {by}", 240)


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


def quoted(release: ReleaseResult) -> list[FindingResult]:
    """List the findings that the attacks are quoted by, one an attack."""
    return [quoting.quoted(several) for several in by_attack(release).values()]


def quoted_with_insiders(release: ReleaseResult) -> list[FindingResult]:
    """List those of `quoted`, and a leak to insiders that another measure stands for."""
    chosen = quoted(release)
    loud = {finding.attack for finding in chosen if finding.leaked.detected}
    inside: dict[str, FindingResult] = {}
    for finding in release.findings:
        if finding.leaked == Leaked.INSIDERS and finding.attack not in loud:
            inside.setdefault(finding.attack, finding)
    chosen += inside.values()
    return [finding for finding in release.findings if any(finding is one for one in chosen)]


def _row(
    release: ReleaseResult,
    finding: FindingResult,
    roles: Sequence[str],
    releases: Sequence[ReleaseResult],
) -> Row:
    beside = [_value_of(control_of(release, role, releases), finding) for role in roles]
    aside = ["insiders only"] if finding.stronger_than_release else []
    aside.append(tally(release, finding.attack))
    undefended = control_of(release, "positive control", releases)
    return Row(
        measurement=wording.measurement(finding),
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


def tally(release: ReleaseResult, attack: str) -> str:
    """Count the answers of an attack's measures; empty where there is only one measure."""
    return verdicts.tally(by_attack(release)[attack])


def _measured(finding: FindingResult) -> Value:
    if finding.value is None:
        return Value(verdicts.measured(finding))
    if by_ranks(finding):
        return Value("likelier than twins", with_count("by ranks", finding.n))
    text = words.estimate(finding.value, finding.ci, finding.unit)
    text += {words.CHARGES: " of its charge", "bits": " bits"}.get(finding.unit, "")
    return Value(text, with_count(_bounds(finding, finding.ci), finding.n))


def with_count(bounds: str, n: int) -> str:
    """Write an interval with the number of what was counted."""
    return ", ".join(filter(None, [bounds, f"n = {words.integer(n)}"]))


def _bounds(finding: FindingResult, ci: tuple[float, float] | None) -> str:
    """Write an interval of a finding, marked where answers could end a session."""
    text = words.interval(ci, finding.unit)
    return f"{text}{legend.ENDED}" if text and finding.cut is not None else text


def by_ranks(finding: FindingResult) -> bool:
    """Return whether a leak is one of ranks, whatever the means are: one twin may move theirs."""
    return finding.leaked.detected and finding.test.endswith("likelihoods")


def _twins(finding: FindingResult) -> Value:
    control, blind, unit = finding.control, finding.blind, finding.unit
    if by_ranks(finding) and control is not None:
        return Value(_LESS, f"n = {words.integer(control.n)}")
    aside = "" if blind is None else f"blind {wording.beside(blind, unit)}"
    if control is None:
        return Value("" if aside else "—", aside=aside)
    estimate = words.estimate(control.value, control.ci, unit)
    return Value(estimate, _bounds(finding, control.ci), aside)


def _value_of(release: ReleaseResult | None, like: FindingResult) -> Value:
    for finding in quoting.alike(like, release):
        if finding.value is not None:
            estimate = words.estimate(finding.value, finding.ci, finding.unit)
            return Value(estimate, words.interval(finding.ci, finding.unit))
    return Value("—")


def certainty(finding: FindingResult, claim: GuaranteeResult) -> str:
    """Describe the ε that a finding shows, or what it could have shown; empty for neither."""
    bound, power = finding.epsilon_lower, finding.power
    if bound is not None and bound.value > 0:
        alone = "" if finding.leaked.detected else ", unadjusted"
        return f"so {wording.bound(bound)}{alone}"
    if finding.leaked.detected:
        return wording.by_chance(finding)
    if finding.leaked != Leaked.NONE_FOUND:
        return ""
    if power.detectable_rate is not None:
        return "" if finding.silence is None else finding.silence.reach.by.rstrip(".")
    if bound is None or power.largest_epsilon is None:
        return ""
    largest, scope = power.largest_epsilon, f"nats {wording.per_unit(bound.unit, bound.relation)}"
    tested = finding.claim == OnClaim.NOT_REFUTED
    if finding.claim_test is not None and not finding.stronger_than_release:
        return f"{'could have refuted' if tested else 'too weak to refute'} its claim"
    alike = not tested and not claims.difference(claim, bound)
    if alike and largest < (wording.finite(claim) or 0.0):
        most = words.at_most(largest)
        return f"too weak to refute its claim: it can show at most ε = {most} {scope}"
    could = "refuted" if tested else "shown"
    return f"could have {could} ε = {words.at_least(largest)} {scope}"
