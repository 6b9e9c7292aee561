"""The table of page one: what each audited release was measured to leak, beside its controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.results.schema import Control, EpsilonLower, FindingResult, ReleaseResult, Results
from reports import _words
from reports._marks import VERDICTS

LINES = 34
_LEAKS = ("refuted", "consistent", "not comparable")
# The roles of references, in which "{}" is the audited defense, and their columns.
_CONTROLS = (
    ("positive control of {}", "Unprotected", "its own models without the protection"),
    ("positive control", "Undefended", "a model trained on the text as it is"),
    ("null control", "Public", "a model that never saw the text"),
)


@dataclass(frozen=True)
class Value:
    """A measured value, the interval below it, and what stands beside it."""

    text: str
    interval: str
    aside: str = ""


@dataclass(frozen=True)
class Row:
    """What one attack is quoted by; `certainty` is the ε it shows, or what it could have shown."""

    measurement: str
    aside: str
    measured: Value
    certainty: str
    controls: list[Value]
    verdict: str


@dataclass(frozen=True)
class Block:
    """One release: its claim above what was found."""

    name: str
    role: str
    claim: str
    anchor: str
    rows: list[Row]


@dataclass(frozen=True)
class Summary:
    """The table: `controls` are the heads of its columns of controls, the twins first."""

    controls: list[str]
    blocks: list[Block]
    note: str

    @property
    def lines(self) -> int:
        """How long it is, in lines of print."""
        return sum(1 + 3 * len(block.rows) for block in self.blocks)


def summary(results: Results, names: list[str]) -> Summary:
    """At most LINES lines: the refuted first, then leaks, then silence, an attack a row."""
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
            claim, role = _words.claim(release.guarantee), _words.clip(release.role, 60)
            blocks.append(Block(name, role, claim, anchor(index), rows))
    heads = ["Twins", *(head for _, head, _ in present)]
    explained = [f"{head}: {meaning}." for _, head, meaning in present]
    return Summary(heads, blocks, _note(releases, len(chosen), explained))


def anchor(index: int) -> str:
    """The fragment identifier of a release's section."""
    return f"release-{index + 1}"


def control_of(
    release: ReleaseResult, role: str, releases: Sequence[ReleaseResult]
) -> ReleaseResult | None:
    """The reference in this role that is most like an audited release."""
    if release.reference:
        return None
    wanted = role.format(release.defense)
    return max(
        (other for other in releases if other.reference and other.role == wanted),
        key=lambda other: (other.seed == release.seed, other.parameters == release.parameters),
        default=None,
    )


def quoted(release: ReleaseResult) -> Iterator[int]:
    """The finding each attack is quoted by: one that refutes, else one of what the release gives,
    a leak before silence, what was measured before what was not, the first before the rest."""
    best: dict[str, tuple[bool, bool, bool, bool, int]] = {}
    for index, finding in enumerate(release.findings):
        key = (
            finding.verdict != "refuted",
            finding.value is None,
            finding.stronger_than_release,
            finding.verdict not in _LEAKS,
            index,
        )
        best[finding.attack] = min(key, best.get(finding.attack, key))
    return (index for *_, index in best.values())


def _chosen(releases: Sequence[ReleaseResult]) -> set[tuple[int, int]]:
    """Which findings are shown, as (release, finding): of references only what they refute.

    The worst of each release comes first, then what else refutes, leaks, is silent.
    """
    alone = all(release.reference for release in releases)
    ranked = []
    for i, release in enumerate(releases):
        told = [(*_mildness(release.findings[j]), place, j)
                for place, j in enumerate(quoted(release))]  # fmt: skip
        for later, (mild, milder, place, j) in enumerate(sorted(told)):
            if alone or not release.reference or not mild:
                ranked.append((later > 0, mild, milder, place, i, j))
    chosen: set[tuple[int, int]] = set()
    for *_, i, j in sorted(ranked):
        if 3 * (1 + len(chosen)) + len({i, *(block for block, _ in chosen)}) <= LINES:
            chosen.add((i, j))
    return chosen


def _mildness(finding: FindingResult) -> tuple[bool, bool]:
    """(False, False) refutes a claim, (True, False) leaks, (True, True) does neither."""
    leaks = finding.verdict in _LEAKS and not finding.stronger_than_release
    return finding.verdict != "refuted", not leaks


def _row(
    release: ReleaseResult,
    finding: FindingResult,
    roles: list[str],
    releases: Sequence[ReleaseResult],
) -> Row:
    unit = finding.unit
    beside = [_value_of(control_of(release, role, releases), finding) for role in roles]
    aside = ["stronger than the release"] if finding.stronger_than_release else []
    aside.append(tally([f for f in release.findings if f.attack == finding.attack]))
    return Row(
        measurement=measurement(finding),
        aside="; ".join(filter(None, aside)),
        measured=_measured(finding),
        certainty=_certainty(finding),
        controls=[_twins(finding.control, finding.blind, unit), *beside],
        verdict=finding.verdict,
    )


def measurement(finding: FindingResult) -> str:
    """The attack and what it measured."""
    return f"{_words.words(finding.attack)}, {_words.metric(finding.attack, finding.metric)}"


def tally(findings: Sequence[FindingResult]) -> str:
    """How many measures came to which verdict; empty where there is only one."""
    if len(findings) < 2:
        return ""
    counts = Counter(str(finding.verdict) for finding in findings)
    told = [f"{counts[word]} {word}" for word in VERDICTS if counts[word]]
    if len(told) == 1:
        return f"{len(findings)} measures, all {findings[0].verdict}"
    return f"{len(findings)} measures: {', '.join(told)}"


def _measured(finding: FindingResult) -> Value:
    if finding.value is None:
        return Value("not measured", "")
    text = _with_unit(_words.quantity(finding.value, finding.unit), finding.unit)
    count = f"n = {_words.count(finding.n)}"
    bounds = _words.interval(finding.ci, finding.unit)
    return Value(text, ", ".join(filter(None, [bounds, count])))


def _with_unit(text: str, unit: str) -> str:
    return f"{text} bits" if unit == "bits" else text


def _twins(control: Control | None, blind: Control | None, unit: str) -> Value:
    seen = "" if blind is None else _words.measured(blind.value, blind.ci, unit)
    aside = f"blind {seen}" if seen else ""
    if control is None:
        return Value("" if aside else "—", "", aside)
    return Value(_words.quantity(control.value, unit), _words.interval(control.ci, unit), aside)


def _value_of(release: ReleaseResult | None, like: FindingResult) -> Value:
    for finding in release.findings if release else ():
        same = (finding.attack, finding.metric, finding.unit)
        if same == (like.attack, like.metric, like.unit) and finding.value is not None:
            return Value(
                _words.quantity(finding.value, finding.unit),
                _words.interval(finding.ci, finding.unit),
            )
    return Value("—", "")


def _certainty(finding: FindingResult) -> str:
    bound, power = finding.epsilon_lower, finding.power
    if bound is not None and bound.value > 0:
        return f"so {at_least(bound)}"
    if finding.verdict == "silent" and power.detectable_rate is not None:
        rate = _words.quantity(power.detectable_rate, finding.unit)
        return f"a rate of {rate} would have been called a leak"
    if finding.verdict == "silent" and bound is not None and power.largest_epsilon is not None:
        scope = _words.per_unit(bound.unit, bound.relation)
        return f"could have shown an ε of {_words.number(power.largest_epsilon)} nats {scope}"
    return ""


def at_least(bound: EpsilonLower) -> str:
    """A lower bound with its unit and relation."""
    return f"ε ≥ {_words.number(bound.value)} nats {_words.per_unit(bound.unit, bound.relation)}"


def _note(releases: Sequence[ReleaseResult], shown: int, explained: list[str]) -> str:
    found = [finding for release in releases for finding in release.findings]
    levels = sorted({finding.confidence for finding in found})
    confidence = " or ".join(_words.share(level) for level in levels) or "95 %"
    told = [f"In brackets: intervals at {confidence} confidence."]
    told.append("Twins: secrets drawn alike and never trained on.")
    if any(finding.blind for finding in found):
        told.append("Blind: a classifier that reads the candidates and no model.")
    told += explained
    if shown < len(found):
        told.append(f"{shown} of {len(found)} findings are shown; all stand under Attacks.")
    return " ".join(told)
