"""The settings of a sweep: a leak or a refutation counts where all seeds together confirm it.

27 releases that are each judged at 5 % fail a build in three of four sweeps without any leak. So a
setting has one p-value of all its seeds, and settings are adjusted for each other (Holm).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from audit.core.terms import Leaked, OnClaim
from audit.findings.settings import adjusted_over, one_toss, setting_p_value, unconfirmed
from audit.gate import leaks, limits, regression
from audit.gate.baseline import Baseline
from audit.gate.outcome import Check, State
from audit.gate.policy import Policy, Regression
from audit.results.joined import LEVEL
from audit.results.labels import labels
from audit.results.schema import Cell, ReleaseResult, Results
from audit.results.words import count


@dataclass(frozen=True)
class Setting:
    """An audited setting with its seeds. allowed: by `attack.metric`, what allows a leak.

    adjusted_p: of "nothing leaked", but for what is allowed or only warned of, over all settings.
    """

    cell: Cell
    seeds: Sequence[ReleaseResult]
    allowed: Mapping[str, str]
    adjusted_p: float

    def confirms(self, rule: str) -> bool:
        """Return whether all seeds together confirm a failed check of a seed."""
        leaks = self.adjusted_p <= LEVEL
        if rule == "leak":
            return leaks
        charged = any(
            f.charge_test is not None and f.claim == OnClaim.REFUTED for f in self.cell.findings
        )
        return self.cell.claim == OnClaim.REFUTED and (leaks or charged)

    def opens(self, check: Check) -> bool:
        """Return whether a measure, silent in each seed by itself, is open over all of them."""
        alone = [f for r in self.seeds for f in r.findings if f.name == check.subject]
        silent = all(f.leaked == Leaked.NONE_FOUND for f in alone)
        return check.rule == "leak" and check.state == State.INCONCLUSIVE and bool(alone) and silent


def settings_of(results: Results, policy: Policy, baseline: Baseline | None) -> list[Setting]:
    """List the audited settings of a sweep; none of a run."""
    cells = [] if results.sweep is None else results.sweep.cells
    several = [(cell, [results.releases[i] for i in cell.releases]) for cell in cells]
    audited = [(cell, seeds) for cell, seeds in several if not all(r.reference for r in seeds)]
    by_name = [allowed(seeds, policy, baseline) for _, seeds in audited]
    p_values = [
        setting_p_value(seeds, one_toss(results.plan), by, policy.insiders)
        for (_, seeds), by in zip(audited, by_name, strict=True)
    ]
    adjusted = adjusted_over([False] * len(p_values), p_values)
    pairs = zip(audited, by_name, adjusted, strict=True)
    return [Setting(cell, seeds, by, p) for (cell, seeds), by, p in pairs]


def allowed(
    seeds: Sequence[ReleaseResult], policy: Policy, baseline: Baseline | None
) -> dict[str, str]:
    """List what allows a leak of a setting: a limit, or a baseline that accepted it in a seed."""
    rule, found = policy.regression or Regression(), dict[str, str]()
    for release in seeds:
        found |= regression.accepted(release, baseline, rule)
        found |= limits.named(release, policy.limit)
    return found


def judged(checks: Iterable[Check], place: int, settings: Sequence[Setting]) -> list[Check]:
    """Open the failed checks of a seed that its setting does not confirm. place: of its release."""
    own = next((one for one in settings if place in one.cell.releases), None)
    return list(checks) if own is None else [_opened(check, own) for check in checks]


def _opened(check: Check, of: Setting) -> Check:
    if check.state != State.FAIL or of.confirms(check.rule):
        return check
    adjusted = f"together p = {of.adjusted_p:.2g}, adjusted for all settings"
    if check.rule == "leak":
        names = (
            any(f.name == check.subject and f.leaked.detected for f in r.findings) for r in of.seeds
        )
        why = f"{unconfirmed(sum(names), len(of.seeds))} ({adjusted})".lower()
    else:
        why = f"refuted in this one of {count(len(of.seeds), 'seed')} ({adjusted})"
    return replace(check, state=State.INCONCLUSIVE, sentence=f"{why}: {check.sentence}")


def checks(settings: Sequence[Setting], policy: Policy, every: bool) -> Iterator[Check]:
    """Fail each setting that leaks, or whose claim is refuted, by all its seeds together.

    What only all seeds together leave open is inconclusive; all else is for the releases to show.
    A setting of one seed is its release. every: as for the checks of a release.
    """
    several = [one for one in settings if len(one.seeds) > 1]
    joined = [_as_release(one) for one in several]
    for label, release, of in zip(labels(joined), joined, several, strict=True):
        for check in leaks.checks(label, release, of.allowed, every, policy):
            confirmed = check.state == State.FAIL and of.confirms(check.rule)
            if confirmed or check.state == State.WARNED or of.opens(check):
                together = f"all {len(of.seeds)} seeds together: {check.sentence}"
                yield replace(check, sentence=together)


def _as_release(one: Setting) -> ReleaseResult:
    """Return the setting in the shape of a release; its label names no seed."""
    cell = one.cell
    joined = {"findings": cell.findings, "leaked": cell.leaked, "claim": cell.claim, "seed": 0}
    return one.seeds[0].model_copy(update=joined)


def missing(results: Results) -> Iterator[Check]:
    """Fail for each audited setting of the plan, and each seed, that the results do not have."""
    cells = [] if results.sweep is None else results.sweep.cells
    firsts = [results.releases[cell.releases[0]] for cell in cells]
    for defense in results.plan.get("defenses", ()):
        own, values = str(defense.get("name")), dict(defense.get("parameters", {}))
        values.pop("served", None)  # the server's own word for it stands in the results
        if not defense.get("reference") and not any(
            r.defense == own and values.items() <= r.parameters.items() and not r.reference
            for r in firsts or results.releases
        ):
            message = f"a setting of the plan is not in the results: {own} {values}"
            yield Check("plan", own, "", State.FAIL, message)
    seeds = results.plan.get("seeds", ())
    for cell, first in zip(cells, firsts, strict=True):
        there = [results.releases[place].seed for place in cell.releases]
        found = sum(seed in there for seed in seeds)
        if found < len(seeds) and not first.reference:
            message = f"{found} of {count(len(seeds), 'planned seed')} are in the results"
            yield Check("plan", first.defense, "", State.FAIL, message)
