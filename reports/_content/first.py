"""The first screen: the verdict, what speaks against relying on it, and what is next.

All of it is about one release: the worst of those that are audited.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from audit.core.terms import Leaked, Shown
from audit.gate.outcome import State
from audit.gate.stored import Gated
from audit.results import badge, quoting
from audit.results.badge import Badge
from audit.results.joined import against_silence, aims
from audit.results.schema import ReleaseResult, Results
from reports._content import usefulness, wording
from reports._content.closing import silent
from reports._content.releases import NamedRelease, rank

NO_GATE = "the gate, which holds a build to limits, was not run (audit gate DIR)"
_DEMO = ("helpdesk", "customersim", "airdialogue")  # the embedded corpora: simulated people
_SEED = re.compile(r" --seed 0(?= |$)")  # the default
_STORED = ("source", "noise")  # parameters that say where noise comes from
_PROMISING = "dp_sgd:noise=system"  # promises each person something, also beside its report


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


def verdict(results: Results, shown: Sequence[NamedRelease]) -> Verdict:
    """Describe the verdict over a run. shown: its releases, or a sweep's settings."""
    subjects = _subjects(shown)
    word = badge.over([one.release for one in subjects], results.status)
    if not subjects:
        return Verdict(
            word, "", word.sentence, "", "Name a defense to audit.", "audit list defenses"
        )
    worst = subject(shown)
    counted = Counter(badge.of_release(one.release) for one in subjects)
    tally = " · ".join(f"{counted[one]} × {one}" for one in Badge if counted[one])
    several = len(subjects) > 1
    step, command = _next(results, worst.release, shown)
    return Verdict(
        badge=word,
        about=worst.name if several else "",
        sentence=badge.sentence(word, worst.release, results),
        others=f"{len(subjects)} {'settings' if results.sweep else 'releases'}: {tally}"
        if several
        else "",
        next=step,
        command=_SEED.sub("", command),
    )


def _subjects(shown: Sequence[NamedRelease]) -> Sequence[NamedRelease]:
    return [one for one in shown if not one.release.reference] or shown


def subject(shown: Sequence[NamedRelease]) -> NamedRelease:
    """Return the release that the first screen is about: the worst one."""
    return min(_subjects(shown), key=lambda one: rank(one.release))


def _next(
    results: Results, release: ReleaseResult, shown: Sequence[NamedRelease]
) -> tuple[str, str]:
    """Say what to do next, and by which command."""
    word, audited = badge.of_release(release), _subjects(shown)
    if word == Badge.REFUTED:
        return (
            "Find the fault: first in what the training did to each unit, then in the accounting, "
            "then in the promise. Then audit again.",
            "",
        )
    if word.rank < Badge.INCONCLUSIVE.rank:
        closed = _closed(release, audited)
        if closed is None:
            return _defended(results, release, audited)
        share = usefulness.kept(closed.release, [one.release for one in shown])
        keeps = f"; it keeps {usefulness.written(share)} of the gain" if share else ""
        return f"In this run {closed.name} shows no leak by the attacks that found one{keeps}.", ""
    if results.status == "partial":
        return "Finish it: the same command goes on where it stopped.", results.again
    again = _with_own_noise(results.again, [one.release for one in audited])
    if word == Badge.INCONCLUSIVE:
        bare = again.replace(" --no-references", "")
        return _earn(release), bare if bare != again else ""
    if badge.untried(results):
        command = _with(again, "--attack", "all")
        return "Run the other attacks; then hold the result by a gate.", command
    return "Hold this result in every build.", "audit gate DIR"


def _closed(release: ReleaseResult, audited: Sequence[NamedRelease]) -> NamedRelease | None:
    """Find a release that has no leak, also by each attack and for each kind that leaks here."""
    leaking = aims([f for f in release.findings if f.leaked.detected])
    quiet = (one for one in audited if badge.of_release(one.release) == Badge.NONE_FOUND)
    return next((one for one in quiet if silent(one.release, leaking)), None)


def _defended(
    results: Results, release: ReleaseResult, audited: Sequence[NamedRelease]
) -> tuple[str, str]:
    """Propose the defense that promises something for a person, or a smaller ε of it.

    Where a release of it stands beside the leak and is undecided, say what would decide that.
    """
    claimed = {
        epsilon: one.release
        for one in audited
        if one.release.defense == "dp_sgd" and (epsilon := wording.finite(one.release.guarantee))
    }
    if claimed:
        epsilon = min(claimed)
        if badge.of_release(claimed[epsilon]).rank < Badge.INCONCLUSIVE.rank:
            smaller = _with(results.again, "--epsilon", f"{epsilon / 4:.3g}")
            return "Try a smaller ε: more noise, less leak.", smaller
        if release.defense != "dp_sgd":
            question = "Decide whether dp_sgd, beside it, closes the leak."
            return f"{question} {_earn(claimed[epsilon])}", ""
    for command in badge.remedies(results):
        return "Train beside it what may close the leak.", command
    if results.plan.get("finished"):
        command = f"audit run --corpus YOURS.jsonl --defense {_PROMISING} --dry-run"
        return "See what a protected training of the same text would leak.", command
    command = _with(results.again, "--defense", _PROMISING)
    return "Try a training that promises each person something.", command


def _with(command: str, option: str, value: str) -> str:
    """Replace an option of a command, wherever it is given."""
    try:
        parts = shlex.split(command, comments=True)
    except ValueError:
        return ""
    if not parts:
        return ""
    kept: list[str] = []
    skip = False
    for part in parts:
        if not skip and part != option:
            kept.append(part)
        skip = part == option and not skip
    return shlex.join([*kept[:2], option, value, *kept[2:]])


def _with_own_noise(command: str, audited: Sequence[ReleaseResult]) -> str:
    """Take the noise from the system in what a command trains, where a stored seed gave it."""
    for release in audited:
        for name in seeded(release):
            given = re.compile(rf"(?<=--defense ){release.defense}(?::(\S+))?(?!\S)")
            command = given.sub(partial(_unseeded, release.defense, name), command)
    return command


def _unseeded(defense: str, name: str, given: re.Match[str]) -> str:
    kept = [pair for pair in (given[1] or "").split(",") if pair and pair != f"{name}=seed"]
    return f"{defense}:{','.join([*kept, f'{name}=system'])}"


def _earn(release: ReleaseResult) -> str:
    """State the first condition of "no leak found" that is missing, which names the remedy."""
    silence = release.silence
    links = [] if silence is None else [silence.contact, silence.sight, silence.reach]
    missing = next((link.by for link in links if link.state == Shown.NOT_SHOWN), "")
    if not missing:
        opened = against_silence(release.findings)
        opened = opened or [f for f in release.findings if quoting.is_open(f)]
        missing = opened[0].sentence if opened else "Add an attack that this release can answer."
    return wording.sentences(f"{missing[:1].upper()}{missing[1:]}", 240)


def warnings(
    results: Results, releases: Sequence[ReleaseResult], gated: Gated | None
) -> Iterator[str]:
    """Yield what speaks against relying on the page, each in a few words."""
    if results.status == "partial":
        yield "Partial. This run did not finish; what is missing was not measured"
    if results.corpus.name in _DEMO:
        yield "the data are the demo's, so this is no answer about another model"
    audited = [release for release in releases if not release.reference]
    stored = {f"{r.defense}:{name}=system" for r in audited for name in seeded(r)}
    if stored:
        yield (
            "noise comes from the seed that this report states; whoever knows it can take the "
            f"noise away: for a release use {' and '.join(sorted(stored))}"
        )
    yield from _controls(releases)
    if gated is None:
        bad = any(rank(release) < Badge.PERMITTED.rank for release in audited)
        yield from () if bad else (NO_GATE,)
    elif gated.state != State.PASS:
        yield gated.headline


def seeded(release: ReleaseResult) -> list[str]:
    """List the parameters by which the noise of a release comes from a stored seed."""
    return [name for name in _STORED if release.parameters.get(name) == "seed"]


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
