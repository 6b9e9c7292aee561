"""The badge: one verdict over a release, a run or a sweep; every page and summary shows it first.

It is derived from the judged findings whenever it is shown, so that no file can contradict them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from audit.core.terms import Leaked, OnClaim, Unit
from audit.results.schema import Cell, FindingResult, ReleaseResult, Results

NOT_RUN = "attacks that were not run: "  # begins what was not tested
CLOSES = "what may close the leak, trained on the same text beside it: "  # begins a warning
FOREIGN = "what attacks of other kinds of runs look for: "  # another line of it
PERSON = (Unit.USER, Unit.ONE_RECORD)
Joined = ReleaseResult | Cell


class Badge(StrEnum):
    """All verdicts, the worst first."""

    REFUTED = "CLAIM REFUTED"
    LEAK = "LEAK"
    PERMITTED = "LEAK, CLAIM NOT REFUTED"
    INSIDERS = "LEAK TO INSIDERS"
    INCONCLUSIVE = "INCONCLUSIVE"
    NONE_FOUND = "NO LEAK FOUND"

    @property
    def rank(self) -> int:
        """The place in the order of all pages: 0 is the worst."""
        return list(Badge).index(self)

    @property
    def sentence(self) -> str:
        """Return the meaning of the verdict for a release, in at most twenty words."""
        return _SENTENCES[self]


_SENTENCES = {
    Badge.REFUTED: "Do not ship it: it gives away more than was promised.",
    Badge.LEAK: "Do not ship it as it is: an attack found what it was trained on.",
    Badge.PERMITTED: "Ship it only if this much may leak: it leaks, and no more than promised was "
    "shown.",
    Badge.INSIDERS: "Give out answers only: whoever reads more finds out what it was trained on.",
    Badge.INCONCLUSIVE: "Not a pass: this run cannot say whether it leaks.",
    Badge.NONE_FOUND: "No objection from the attacks that were run: they would have found a "
    "large leak. Others may find one.",
}
_OF_FINDING = {
    Leaked.LEAK: Badge.LEAK,
    Leaked.INSIDERS: Badge.INSIDERS,
    Leaked.NONE_FOUND: Badge.NONE_FOUND,
}


def of_finding(finding: FindingResult) -> Badge:
    """Return the verdict of one finding; what was not measured is inconclusive."""
    if finding.claim == OnClaim.REFUTED:
        return Badge.REFUTED
    if finding.leaked == Leaked.LEAK and finding.claim == OnClaim.NOT_REFUTED:
        return Badge.PERMITTED
    return _OF_FINDING.get(finding.leaked, Badge.INCONCLUSIVE)


def of_release(joined: Joined) -> Badge:
    """Return the verdict of a release, or of a setting of a sweep over its seeds.

    It is never milder than a leak or a refutation of any finding. A leak counts as permitted only
    where each attack that leaks has also tested the claim by a measure that leaks.
    """
    found = {of_finding(finding) for finding in joined.findings}
    if joined.claim == OnClaim.REFUTED or Badge.REFUTED in found:
        return Badge.REFUTED
    leaking = [f for f in joined.findings if f.leaked == Leaked.LEAK]
    if leaking or joined.leaked == Leaked.LEAK:
        tested = {f.attack for f in leaking if f.claim == OnClaim.NOT_REFUTED}
        permitted = bool(tested) and tested == {f.attack for f in leaking}
        return Badge.PERMITTED if permitted else Badge.LEAK
    if joined.leaked == Leaked.INSIDERS or Badge.INSIDERS in found:
        return Badge.INSIDERS
    return Badge.NONE_FOUND if joined.leaked == Leaked.NONE_FOUND else Badge.INCONCLUSIVE


def of_results(results: Results) -> Badge:
    """Return the verdict of a run or a sweep: the worst of what it audits.

    Controls do not count, unless there is nothing else.
    """
    return over(audited(results), results.status)


def over(subjects: Sequence[Joined], status: str) -> Badge:
    """Return the worst verdict. Without subjects, or not complete, it is inconclusive at best."""
    best = Badge.NONE_FOUND if subjects and status == "complete" else Badge.INCONCLUSIVE
    return min([best, *map(of_release, subjects)], key=lambda badge: badge.rank)


def audited(results: Results) -> Sequence[Joined]:
    """List what a run audits: its settings over all seeds, or its releases without controls."""
    if results.sweep is not None:
        cells = results.sweep.cells
        subjects = [c for c in cells if not results.releases[c.releases[0]].reference]
        return subjects or cells
    return [r for r in results.releases if not r.reference] or results.releases


def remedies(results: Results) -> list[str]:
    """List the commands that train what may close a leak of a model trained elsewhere."""
    return [w.removeprefix(CLOSES) for w in results.warnings if w.startswith(CLOSES)]


def line(results: Results) -> str:
    """Write the verdict of a run with its sentence, for a terminal."""
    verdict, subjects = of_results(results), audited(results)
    if not subjects:
        return f"{verdict}: {verdict.sentence}"
    worst = min(subjects, key=lambda one: of_release(one).rank)
    release = worst if isinstance(worst, ReleaseResult) else results.releases[worst.releases[0]]
    return f"{verdict}: {sentence(verdict, release, results)}"


def sentence(verdict: Badge, release: ReleaseResult, results: Results) -> str:
    """Say what the verdict means for whoever would ship a release, in at most twenty words."""
    if verdict == Badge.INCONCLUSIVE and release.leaked == Leaked.NOT_MEASURED:
        return "Not a pass: nothing was measured that could show a leak."
    if verdict == Badge.INSIDERS:
        return f"{verdict.sentence} By answers alone: {release.leaked}."
    left_out = untried(results)
    if verdict == Badge.NONE_FOUND and left_out:
        ran = len({finding.attack for finding in release.findings})
        tried = f"{ran} of {ran + len(left_out)} attacks {'was' if ran == 1 else 'were'} run"
        person = release.guarantee.unit in PERSON
        but = "found no leak" if person else "nothing is promised to a single person"
        return f"Not cleared yet: {tried}, and {but}."
    return verdict.sentence


def untried(results: Results) -> list[str]:
    """List the attacks that could have been run and were not."""
    lines = (line for line in results.not_tested if line.startswith(NOT_RUN))
    return next((line.removeprefix(NOT_RUN).split(", ") for line in lines), [])
