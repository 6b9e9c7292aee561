"""The first screen: the verdict, what speaks against relying on it, four boxes, and what is next.

All of it is about one release: the worst of those that are audited.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.core.terms import Leaked, OnClaim, Shown, Unit
from audit.gate.outcome import State
from audit.gate.stored import Gated
from audit.results import badge, quoting, words
from audit.results.badge import Badge
from audit.results.schema import FindingResult, GuaranteeResult, ReleaseResult, Results
from reports._content import claims, summary, usefulness, wording
from reports._content.table import Pair

MOST_UNTESTED = 3
_NOT_RUN = "attacks that were not run: "
NO_GATE = "the gate, which holds a build to limits, was not run (audit gate DIR)"
_DEMO = ("helpdesk", "customersim", "airdialogue")  # the embedded corpora: simulated people
_STORED = ("source", "noise")  # parameters that say where noise comes from
_PERSON = (Unit.USER, Unit.ONE_RECORD)
_NEEDED = 0.8  # the probability that `Power.needed` stands for where it is null
_LARGE = 20.0  # nats; a factor of half a billion says no more than the figure


@dataclass(frozen=True)
class Verdict:
    """The badge, which release it is about, what it means, and what to do next.

    others: how many releases have which verdict, where there are several. command: one to run.
    """

    badge: str
    about: str
    sentence: str
    others: str
    next: str
    command: str


@dataclass(frozen=True)
class Box:
    """One of the four answers: a figure, and lines that qualify it, the first ones first.

    target: fragment of the section with all of it.
    """

    name: str
    figure: str
    lines: list[str]
    target: str


def verdict(results: Results, releases: Sequence[ReleaseResult], names: Sequence[str]) -> Verdict:
    """Describe the verdict over a run. releases: as shown, so a sweep's settings."""
    subjects = _subjects(releases)
    word = badge.over([releases[i] for i in subjects], results.status)
    if not subjects:
        return Verdict(
            word, "", word.sentence, "", "Name a defense to audit.", "audit list defenses"
        )
    worst = subject(releases)
    release = releases[worst]
    counted = Counter(badge.of_release(releases[i]) for i in subjects)
    tally = [f"{counted[one]} × {one}" for one in Badge if counted[one]]
    several = len(subjects) > 1
    step, command = _next(results, release, [releases[i] for i in subjects], names, releases)
    return Verdict(
        badge=word,
        about=names[worst] if several else "",
        sentence=_sentence(word, release),
        others=f"{len(subjects)} {'settings' if results.sweep else 'releases'}: "
        f"{' · '.join(tally)}" if several else "",
        next=step,
        command=command,
    )  # fmt: skip


def _subjects(releases: Sequence[ReleaseResult]) -> list[int]:
    audited = [i for i, release in enumerate(releases) if not release.reference]
    return audited or list(range(len(releases)))


def subject(releases: Sequence[ReleaseResult]) -> int:
    """Return the place of the release that the first screen is about: the worst one."""
    return min(_subjects(releases), key=lambda i: badge.of_release(releases[i]).rank)


def _sentence(word: Badge, release: ReleaseResult) -> str:
    if word == Badge.INCONCLUSIVE and release.leaked == Leaked.NOT_MEASURED:
        return "Not a pass: nothing was measured that could show a leak."
    if word == Badge.INSIDERS:
        return f"{word.sentence} For all others: {release.leaked}."
    return word.sentence


def _next(
    results: Results,
    release: ReleaseResult,
    audited: Sequence[ReleaseResult],
    names: Sequence[str],
    releases: Sequence[ReleaseResult],
) -> tuple[str, str]:
    """Say what to do next, and by which command."""
    word = badge.of_release(release)
    if word == Badge.REFUTED:
        step = "Find the fault, in the training, its accounting or the promise; then audit again."
        return step, ""
    if word.rank < Badge.INCONCLUSIVE.rank:
        closed = _closed(release, audited)
        if closed is not None:
            name = names[releases.index(closed)]
            return f"In this run {name} closed it: the same attacks found no leak in it.", ""
        return _defended(results, release)
    if word == Badge.INCONCLUSIVE:
        return _earn(release), _with_references(results.reproduce)
    missing = any(line.startswith(_NOT_RUN) for line in results.not_tested)
    if missing:
        return "Run the other attacks; then hold the result by a gate.", _with(
            results.reproduce, "--attack", "all"
        )
    return "Hold this result in every build.", "audit gate DIR"


def _closed(release: ReleaseResult, audited: Sequence[ReleaseResult]) -> ReleaseResult | None:
    """Find a release in which no attack leaks that leaks here, but finds no leak."""
    leaking = {f.attack for f in release.findings if f.leaked.detected}
    for other in audited:
        silent = {f.attack for f in other.findings if f.leaked == Leaked.NONE_FOUND}
        if badge.of_release(other) == Badge.NONE_FOUND and leaking <= silent:
            return other
    return None


def _defended(results: Results, release: ReleaseResult) -> tuple[str, str]:
    """Propose the defense that promises something for a person, or a smaller ε of it."""
    epsilon = release.guarantee.epsilon
    if release.defense == "dp_sgd" and epsilon and math.isfinite(epsilon):
        smaller = _with(results.reproduce, "--epsilon", f"{epsilon / 4:.3g}")
        return "Try a smaller ε: more noise, less leak.", smaller
    if results.plan.get("finished"):
        command = "audit run --corpus YOURS.jsonl --defense dp_sgd --dry-run"
        return "See what a protected training of the same text would leak.", command
    command = _with(results.reproduce, "--defense", "dp_sgd")
    return "Try a training that promises each person something.", command


def _with(command: str, option: str, value: str) -> str:
    """Replace an option of a command, wherever it is given."""
    try:
        parts = shlex.split(command)
    except ValueError:
        return ""
    kept: list[str] = []
    skip = False
    for part in parts:
        if not skip and part != option:
            kept.append(part)
        skip = part == option and not skip
    return shlex.join([*kept[:2], option, value, *kept[2:]])


def _with_references(command: str) -> str:
    """Return a command without the flag that leaves the controls out; "" where it has none."""
    bare = command.replace(" --no-references", "")
    return bare if bare != command else ""


def _earn(release: ReleaseResult) -> str:
    """State the first condition of "no leak found" that is missing, which names the remedy."""
    silence = release.silence
    links = [] if silence is None else [silence.contact, silence.sight, silence.reach]
    missing = next((link.by for link in links if link.state == Shown.NOT_SHOWN), "")
    if not missing:
        opened = [f for f in release.findings if quoting.is_open(f)]
        missing = opened[0].sentence if opened else "Add an attack that this release can answer."
    return wording.sentences(f"{missing[:1].upper()}{missing[1:]}", 240)


def warnings(results: Results, releases: Sequence[ReleaseResult], gated: Gated | None) -> list[str]:
    """List what speaks against relying on the page, each in a few words."""
    return list(_warnings(results, releases, gated))


def _warnings(
    results: Results, releases: Sequence[ReleaseResult], gated: Gated | None
) -> Iterator[str]:
    if results.status == "partial":
        yield "Partial. This run did not finish; what is missing was not measured"
    if results.corpus.name in _DEMO:
        yield "the data are the demo's, so this is no answer about another model"
    audited = [release for release in releases if not release.reference]
    if any(map(_seeded, audited)):
        yield "noise comes from a stored seed: whoever has it can take the noise away"
    yield from _controls(releases)
    if gated is None:
        yield NO_GATE
    elif gated.state != State.PASS:
        yield gated.headline


def _seeded(release: ReleaseResult) -> bool:
    return any(release.parameters.get(name) == "seed" for name in _STORED)


def _controls(releases: Sequence[ReleaseResult]) -> Iterator[str]:
    null = [r for r in releases if r.role == "null control"]
    if any(f.leaked == Leaked.LEAK for r in null for f in r.findings):
        yield "a control failed: a model that never saw the text counts as leaking"
    undefended = [r for r in releases if r.reference and r.role == "positive control"]
    quiet = [r for r in undefended if not any(f.leaked.detected for f in r.findings)]
    if quiet and not any(r.leaked.detected for r in releases if not r.reference):
        yield "a control failed: not even the undefended model leaks, so finding none means little"


def warned_title(verdicts: Sequence[Verdict]) -> str:
    """Introduce the warnings: where the verdict is bad, settling them would not mend it."""
    if any(Badge(one.badge).rank < Badge.PERMITTED.rank for one in verdicts):
        return "Also to know before you quote it:"
    return "Settle before you ship or quote it:"


def passed(gated: Gated | None) -> str:
    """State that the gate passed; empty otherwise, since the warnings name it then."""
    return gated.headline if gated is not None and gated.state == State.PASS else ""


def boxes(results: Results, releases: Sequence[ReleaseResult]) -> list[Box]:
    """Answer what was promised, what leaked, what it cost, and what was not shown."""
    if not releases:
        return []
    release = releases[subject(releases)]
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
    value = f"ε = {words.epsilon(claim.epsilon)}"
    person = claim.unit in _PERSON
    lines = [] if person else ["Nothing is promised per person."]
    lines += ["A part is a group of users."] if claim.unit == Unit.PART else []
    lines.append(_tested(release))
    lines += ["None of it against whoever has the stored seed."] if _seeded(release) else []
    lines.append(_meaning(claim))
    kind = [f"in nats, {wording.spelled(claim.relation)}"]
    kind += [f"δ = {words.at_most(claim.delta)}"] if claim.delta is not None else []
    kind += [f"Rényi order {words.number(claim.alpha)}"] if claim.alpha is not None else []
    kind += [claim.basis] if claim.basis != "worst case" else []
    lines.append(f"({', '.join(kind)})")
    return Box("Promised", f"{value} per {claim.unit}", lines, "promised")


def _meaning(claim: GuaranteeResult) -> str:
    """State what ε allows: a factor of probabilities, unless it is a Rényi divergence."""
    if claim.alpha is not None or claim.epsilon is None or claim.epsilon > _LARGE:
        return f"The smaller ε, the less one {claim.unit} can change what is released."
    factor = words.at_most(math.exp(claim.epsilon))
    but = " (but for δ)" if claim.delta else ""
    return (
        f"It promises that one {claim.unit} makes no outcome more than {factor} times as "
        f"likely{but}."
    )


def _tested(release: ReleaseResult) -> str:
    if release.claim == OnClaim.REFUTED:
        return f"Refuted with 95\u00a0% confidence{_shown(release)}."
    if release.claim == OnClaim.NOT_REFUTED:
        return f"Tested, not refuted{_shown(release)}."
    return "Not tested by these attacks."


def _shown(release: ReleaseResult) -> str:
    """Add the largest bound on ε that may be compared with the claim."""
    alike = [
        bound.value
        for finding, bound in claims.bounded(release)
        if finding.claim in (OnClaim.REFUTED, OnClaim.NOT_REFUTED)
        and not claims.difference(release.guarantee, bound)
    ]
    return f": ε is {words.at_least(max(alike))} or more" if alike else ""


def worst_finding(release: ReleaseResult) -> FindingResult | None:
    """Return the finding that stands for a release: the worst of those that its attacks quote."""
    rows = [release.findings[i] for i in summary.quoted_with_insiders(release)]
    known = [f for f in rows if f.charge_test is None] or rows
    return min(known, key=lambda f: badge.of_finding(f).rank, default=None)


def _leaked(release: ReleaseResult, releases: Sequence[ReleaseResult]) -> Box:
    worst = worst_finding(release)
    if worst is None or (worst.value is None and not worst.leaked.detected):
        return Box("Leaked", "not measured", ["No attack got an answer."], "found")
    figure, what = _figure(worst)
    if badge.of_finding(worst) == Badge.INCONCLUSIVE:
        return Box("Leaked", "no answer", [f"{figure} {what}", "It shows nothing here."], "found")
    also = dict.fromkeys(f.attack for f in release.findings if f.leaked == worst.leaked)
    others = [wording.spelled(attack) for attack in also if attack != worst.attack]
    lines = [what, *_distinct(worst, release)]
    if worst.leaked.detected and others:
        lines.append(f"Also by {', '.join(others)}.")
    if worst.leaked == Leaked.INSIDERS:
        lines.append("Only for those who read more than the release gives.")
    beside = _undefended(worst, release, releases)
    lines += [f"Undefended: {beside}."] if beside else []
    lines.append(_sure(worst))
    return Box("Leaked", figure, [line for line in lines if line], "found")


def _figure(finding: FindingResult) -> Pair:
    """Write the value of a finding, k of n where it counts, and what was counted."""
    metric = wording.metric(finding.attack, finding.metric)
    name = f"by {wording.spelled(finding.attack)} ({metric})"
    if finding.k is not None:
        unit = finding.unit.removeprefix("share of ")
        what = "generations were a planted secret" if unit == "generations" else unit
        return f"{finding.k:,} of {finding.n:,}", f"{what}, {name}."
    if finding.value is None:
        return "a leak", f"known within bounds only, {name}."
    value = words.quantity(finding.value, finding.unit)
    if finding.unit == "AUC":
        return (
            f"AUC {value}",
            f"of at most 1, where all planted people are told apart; 0.5 is chance; {name}.",
        )
    if finding.unit == "bits":
        return f"{value} bits", f"1 bit is chance; {name}."
    return value, f"{finding.unit}, {name}."


def _distinct(finding: FindingResult, release: ReleaseResult) -> list[str]:
    """Count the planted secrets that came up, beside the generations that held one."""
    for one in release.findings:
        if (one.attack, one.metric) == (finding.attack, "recall") and one.k is not None and one.k:
            return [f"{one.k:,} of {one.n:,} planted secrets came up."]
    return []


def _undefended(
    finding: FindingResult, release: ReleaseResult, releases: Sequence[ReleaseResult]
) -> str:
    other = summary.control_of(release, "positive control", releases)
    for one in other.findings if other else ():
        if (one.attack, one.metric, one.unit) == (finding.attack, finding.metric, finding.unit):
            return _figure(one)[0] if one.value is not None else ""
    return ""


def _sure(finding: FindingResult) -> str:
    """State how sure the answer is: how rare a leak is by chance, or what would be noticed."""
    if finding.leaked.detected:
        known = [p for p in (finding.adjusted_p, finding.guesses_p) if p is not None]
        p = max(min(known, default=1.0), 1e-6)
        return f"How sure: chance does this in 1 of {int(1 / p):,} runs at most." if p < 1 else ""
    if finding.leaked != Leaked.NONE_FOUND:
        return "How sure: no answer either way."
    rate = finding.power.detectable_rate
    if rate is not None and finding.k is not None:
        runs = words.share(finding.power.needed or _NEEDED)
        return f"How sure: {words.share(rate)} of tries would be noticed in {runs} of such runs."
    return "" if finding.silence is None else finding.silence.reach.by


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
    stops = [s for s in release.sessions if s.purpose.startswith("utility") and s.stopped_at]
    lines = [f"Its budget ended after {s.answered:,} of {s.queries:,} tokens." for s in stops[:1]]
    if share is None:
        return Box("Cost", "not compared", [line, *lines], "releases")
    if release.defense == "none" and not release.parameters:
        return Box("Cost", "none", ["It has no protection that could cost.", line], "releases")
    figure = f"{usefulness.written(share)} of gain kept"
    gain = "Gain: the fall of the log-perplexity by training on the text."
    return Box("Cost", figure, [gain, line, *lines], "releases")


def _not_shown(results: Results, release: ReleaseResult) -> Box:
    """Name what no figure of the page says anything about."""
    counted = Counter(f.leaked for f in release.findings if f.charge_test is None)
    open_, unmeasured = counted[Leaked.INCONCLUSIVE], counted[Leaked.NOT_MEASURED]
    lines = [f"{words.count(open_, 'measure')} inconclusive."] if open_ else []
    lines += [f"{words.count(unmeasured, 'measure')} not made."] if unmeasured else []
    left = [
        f"Not tested: {wording.clip(line.removeprefix(_NOT_RUN), 100)}."
        for line in results.not_tested
    ]
    attacks = [line for line in results.not_tested if line.startswith(_NOT_RUN)]
    count = len(attacks[0].removeprefix(_NOT_RUN).split(",")) if attacks else 0
    figure = f"{words.count(count, 'attack')} not run" if count else "other attackers"
    return Box("Not shown", figure, [*lines, *left][:MOST_UNTESTED], "untested")
