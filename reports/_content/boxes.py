"""The four boxes of the first screen: what was promised, leaked, paid, and is not shown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.terms import Leaked, OnClaim, Unit
from audit.results import badge, quoting, words
from audit.results.badge import FOREIGN, NOT_RUN, PERSON, Badge
from audit.results.labels import ELSEWHERE
from audit.results.schema import FindingResult, GuaranteeResult, ReleaseResult, Results
from reports._content import claims, legend, summary, usefulness, wording
from reports._content.first import seeded, subject
from reports._content.releases import NamedRelease
from reports._content.table import Pair

MOST_UNTESTED = 3
_LARGE = 20.0  # nats; a factor of half a billion says no more than the figure


@dataclass(frozen=True)
class Box:
    """One of the four answers: a figure, and lines that qualify it, the first ones first.

    target: fragment of the section with all of it.
    """

    name: str
    figure: str
    lines: list[str]
    target: str


def boxes(results: Results, shown: Sequence[NamedRelease]) -> list[Box]:
    """Answer what was promised, what leaked, what it cost, and what was not shown."""
    if not shown:
        return []
    release, releases = subject(shown).release, [one.release for one in shown]
    return [
        _promised(release),
        _leaked(release, releases),
        _cost(release, releases),
        _not_shown(results, release),
    ]


def _promised(release: ReleaseResult) -> Box:
    """State ε with its unit; of a unit that is no person, that no person is promised anything."""
    claim = release.guarantee
    if claim.epsilon is None:
        return Box("Promised", "not known", ["What was promised is not stated."], "promised")
    if math.isinf(claim.epsilon):
        return Box("Promised", "nothing", ["No ε protects anybody."], "promised")
    figure = f"ε = {words.epsilon(claim.epsilon)} per {claim.unit}"
    person = claim.unit in PERSON
    lines = [] if person else [f"Promised is {figure}."]
    lines += ["A part is a group of users."] if claim.unit == Unit.PART else []
    lines.append(_tested(release))
    lines += ["None of it against whoever has the stored seed."] if seeded(release) else []
    lines.append(_meaning(claim))
    kind = [f"in nats, {wording.spelled(claim.relation)}"]
    kind += [f"δ = {words.at_most(claim.delta)}"] if claim.delta is not None else []
    kind += [f"Rényi order {words.number(claim.alpha)}"] if claim.alpha is not None else []
    kind += [claim.basis] if claim.basis != "worst case" else []
    lines.append(f"({', '.join(kind)})")
    return Box("Promised", figure if person else "nothing per person", lines, "promised")


def _meaning(claim: GuaranteeResult) -> str:
    """State what ε allows: a factor of probabilities, unless it is a Rényi divergence."""
    if claim.alpha is not None or claim.epsilon is None or claim.epsilon > _LARGE:
        return f"The smaller ε, the less one {claim.unit} can change what is released."
    factor = words.at_most(math.exp(claim.epsilon), 2)
    but = " (δ aside)" if claim.delta else ""
    weak = "; with ε = 1 it would be 2.72" if claim.epsilon >= 2 else ""
    return (
        f"It promises that one {claim.unit} makes no outcome more than {factor} times as "
        f"likely{but}{weak}."
    )


def _tested(release: ReleaseResult) -> str:
    if release.claim == OnClaim.REFUTED:
        return f"Refuted with 95\u00a0% confidence{_shown(release)}."
    if release.claim == OnClaim.NOT_REFUTED:
        tests = (f.attack for f in release.findings if f.claim == OnClaim.NOT_REFUTED)
        by = ", ".join(map(wording.spelled, dict.fromkeys(tests)))
        return f"Tested by {by}, not refuted{_shown(release)}."
    return "Not tested by these attacks."


def _shown(release: ReleaseResult) -> str:
    """Add the largest bound on ε that may be compared with the claim."""
    alike = [
        finding.epsilon_lower.value
        for finding in release.findings
        if finding.epsilon_lower is not None
        and finding.claim in (OnClaim.REFUTED, OnClaim.NOT_REFUTED)
        and not claims.difference(release.guarantee, finding.epsilon_lower)
    ]
    best = max(alike, default=0.0)
    if not best:
        return ""
    factor = f", {words.at_least(math.exp(best), 2)} times as likely" if best <= _LARGE else ""
    several = f"; {words.largest_of(len(alike))}" if len(alike) > 1 else ""
    return f"{several}: ε is {words.at_least(best)} or more{factor}"


def worst_finding(release: ReleaseResult) -> FindingResult | None:
    """Return the finding that stands for a release: the worst of those that its attacks quote."""
    rows = summary.quoted_with_insiders(release)
    known = [f for f in rows if f.charge_test is None] or rows
    return min(known, key=summary.badness, default=None)


def _leaked(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> Box:
    worst = worst_finding(release)
    if worst is None or (worst.value is None and not worst.leaked.detected):
        return Box("Leaked", "not measured", ["No attack got an answer."], "found")
    figure, what = _figure(worst)
    if Badge.INCONCLUSIVE in (badge.of_finding(worst), badge.of_release(release)):
        shows = "This does not show that nothing leaks."
        return Box("Leaked", "no answer", [f"{figure} {what}", shows], "found")
    also = dict.fromkeys(f.attack for f in release.findings if f.leaked == worst.leaked)
    others = [wording.spelled(attack) for attack in also if attack != worst.attack]
    lines = [what, *_distinct(worst, release)]
    if worst.leaked.detected and others:
        lines.append(f"Also by {', '.join(others)}.")
    if worst.leaked == Leaked.INSIDERS:
        lines.append("Only for those who read more than the release gives.")
    elif worst.leaked.detected:
        lines.append("To everybody who can use the release.")
    lines += _beside(worst, release, releases)
    lines += _spoken(worst, release)
    lines.append(_sure(worst))
    return Box("Leaked", figure, [line for line in lines if line], "found")


def _figure(finding: FindingResult) -> Pair:
    """Write the value of a finding, k of n where it counts, and what was counted."""
    metric = wording.metric(finding.attack, finding.metric)
    name = f"by {wording.spelled(finding.attack)} ({metric})"
    if finding.k is not None:
        unit = finding.unit.removeprefix("share of ")
        what = "generated texts held a planted secret" if unit == "generations" else unit
        return f"{finding.k:,} of {finding.n:,}", f"{what}, {name}."
    if summary.by_ranks(finding):
        return "a leak", f"planted values are likelier than values of twins, {name}."
    if finding.value is None:
        return "a leak", f"known within bounds only, {name}."
    value = words.estimate(finding.value, finding.ci, finding.unit)
    if finding.unit == "AUC":
        return (
            f"AUC {value}",
            f"for telling who was trained on: 0.5 is chance, 1 is without error; {name}.",
        )
    if finding.unit == "bits":
        return f"{value} bits", f"1 bit is chance; {name}."
    if finding.unit == words.WEALTH:
        people = words.count(finding.n, "person", "people")
        won = f"bets on who was trained on made {value} of 1, which is 1 on average without a leak"
        return f"after {people}", f"{name}: {won}."
    return value, f"{finding.unit}, {name}."


def _distinct(finding: FindingResult, release: ReleaseResult) -> list[str]:
    """Count the planted secrets that came up, beside the generations that held one."""
    for one in release.findings:
        if (one.attack, one.metric) == (finding.attack, "recall") and one.k is not None and one.k:
            return [f"{one.k:,} of the {one.n:,} planted secrets came up."]
    return []


def _beside(
    finding: FindingResult, release: ReleaseResult, releases: Sequence[ReleaseResult]
) -> list[str]:
    """Write the same measure of the defense's own models, and of the undefended one."""
    lines = []
    for role, head, _ in legend.CONTROLS[:2]:
        other = summary.control_of(release, role, releases)
        values = [one for one in quoting.alike(finding, other) if one.value is not None]
        by = ", as this tool trains" if release.defense == ELSEWHERE else ""
        lines += [f"{head}{by}: {_figure(one)[0]}." for one in values[:1]]
        own = role != "positive control"
        if own and values and not (finding.leaked.detected or values[0].leaked.detected):
            lines.append("So by this measure the protection gets no credit.")
    return lines


def _spoken(finding: FindingResult, release: ReleaseResult) -> list[str]:
    """State whether a service with a budget still answered while it was attacked."""
    for s in release.sessions:
        if s.purpose == finding.attack and s.budget is not None:
            of = "all" if s.answered == s.queries else f"{s.answered:,} of the"
            return [f"Asked in a session of its own, whose ε lasted for {of} {s.queries:,} tokens."]
    return []


def _sure(finding: FindingResult) -> str:
    """State how sure the answer is: how rare a leak is by chance, or what would be noticed."""
    if finding.leaked.detected:
        chance = wording.by_chance(finding)
        return f"How sure: {chance}." if chance else ""
    if finding.leaked != Leaked.NONE_FOUND:
        return "How sure: no answer either way."
    reach = "" if finding.silence is None else finding.silence.reach.by
    return reach and f"How sure: {reach[:1].lower()}{reach[1:]}"


def _cost(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> Box:
    own = release.utility.get("perplexity")
    if own is None:
        return Box("Cost", "not measured", ["No held-out text was scored."], "releases")
    others = [name for name in ("none", "public") if name != release.defense]
    beside = {name: usefulness.perplexity(name, releases) for name in others}
    spoken = {"none": "undefended", "public": "public"}
    marks = [f"{spoken[n]} {words.number(v)}" for n, v in beside.items() if v is not None]
    of = f" ({', '.join(marks)})" if marks else ""
    line = f"Perplexity {words.number(own.value)}{of}; lower is better."
    share = usefulness.kept(release, releases)
    utility = (s for s in release.sessions if s.purpose.startswith("utility"))
    stops = [s for s in utility if s.stopped_at is not None]
    lines = [
        f"Measured in a session of its own, whose ε lasted for {s.answered:,} of the "
        f"{s.queries:,} tokens; then the public model answers."
        for s in stops[:1]
    ]
    if share is None:
        return Box("Cost", "not compared", [line, *lines], "releases")
    if release.defense == "none" and not release.parameters:
        return Box("Cost", "no defense", ["So nothing was paid for one.", line], "releases")
    figure = f"{usefulness.written(share)} of gain kept"
    between = usefulness.interval(release, releases)
    ends = [f"{between} by the interval of its perplexity."] if between else []
    gain = "Gain: the fall of log-perplexity by training."
    return Box("Cost", figure, [*ends, gain, line, *lines], "releases")


def _not_shown(results: Results, release: ReleaseResult) -> Box:
    """Name what no figure of the page says anything about."""
    counted = Counter(f.leaked for f in release.findings if f.charge_test is None)
    open_, unmeasured = counted[Leaked.INCONCLUSIVE], counted[Leaked.NOT_MEASURED]
    every = words.count(counted.total(), "measure")
    left_open = {"inconclusive": open_, "not measured": unmeasured}
    lines = [f"{n:,} of {every} of the attacks run: {what}." for what, n in left_open.items() if n]
    left = [
        f"Not tested: {wording.clip(line.removeprefix(NOT_RUN), 100)}."
        for line in results.not_tested
        if not line.startswith(FOREIGN)
    ]
    count = len(badge.untried(results))
    figure = f"{words.count(count, 'attack')} not run" if count else "other attackers"
    return Box("Not shown", figure, [*lines, *left][:MOST_UNTESTED], "untested")
