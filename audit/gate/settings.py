"""The settings of a sweep: what its seeds show together, where each alone shows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from audit.gate import leaks, limits, regression
from audit.gate.baseline import Baseline
from audit.gate.identity import labels
from audit.gate.outcome import Check, State
from audit.gate.policy import Policy, Regression
from audit.results.schema import Cell, ReleaseResult, Results


def checks(results: Results, policy: Policy, baseline: Baseline | None) -> Iterator[Check]:
    """Fail each setting that leaks, or whose claim is refuted, by all its seeds together.

    All else is for the releases to show. A setting of one seed is its release.
    """
    cells = [] if results.sweep is None else results.sweep.cells
    several = [(cell, [results.releases[i] for i in cell.releases]) for cell in cells]
    audited = [(c, rs) for c, rs in several if len(rs) > 1 and not all(r.reference for r in rs)]
    settings = [_as_release(cell, releases) for cell, releases in audited]
    named = zip(labels(settings), settings, audited, strict=True)
    for label, setting, (_, releases) in named:
        for check in _of_setting(label, setting, releases, policy, baseline):
            if check.state in (State.FAIL, State.WARNED):
                together = f"all {len(releases)} seeds together: {check.sentence}"
                yield replace(check, sentence=together)


def _as_release(cell: Cell, releases: list[ReleaseResult]) -> ReleaseResult:
    """Return the setting in the shape of a release; its label names no seed."""
    joined = {"findings": cell.findings, "leaked": cell.leaked, "claim": cell.claim, "seed": 0}
    return releases[0].model_copy(update=joined)


def _of_setting(
    label: str,
    setting: ReleaseResult,
    releases: list[ReleaseResult],
    policy: Policy,
    baseline: Baseline | None,
) -> Iterator[Check]:
    """Check it like a release; a leak that the baseline accepted in a seed of it is accepted."""
    allowed: dict[str, str] = {}
    for release in releases:
        allowed |= regression.accepted(release, baseline, policy.regression or Regression())
    allowed |= limits.named(setting, policy.limit)
    insiders = leaks.to_insiders(policy)
    yield from leaks.leak_checks(label, setting, allowed, False, insiders)
    if policy.empirical:
        yield leaks.claim_check(label, setting)
