"""The gate: one verdict on a run, which console, exit code, JUnit, SARIF and summary all show."""

from __future__ import annotations

import datetime
from dataclasses import replace

from audit.gate import claims, leaks, limits, regression, utilities, waivers
from audit.gate.baseline import Baseline
from audit.gate.metric import labels
from audit.gate.outcome import Check, Outcome, State
from audit.gate.policy import Policy, Regression
from audit.gate.render.escaping import visible
from audit.results.schema import Results


def verdict(
    results: Results,
    policy: Policy,
    baseline: Baseline | None,
    today: datetime.date,
    strict: bool = False,
) -> Outcome:
    """All checks that policy and baseline ask for. References are never gated.

    today: decides which waivers hold. Every string of the outcome is visible text on one line.
    """
    gated = [release for release in results.releases if not release.reference]
    releases = list(zip(labels(gated), gated, strict=True))
    by_default = policy.leaks is None and not policy.limit and baseline is None
    found: list[Check] = []
    for label, release in releases:
        if policy.leaks or by_default:
            found += leaks.leak_checks(label, release)
        if policy.empirical:
            found.append(leaks.empirical_check(label, release))
    for limit in policy.limit:
        found += limits.checks(limit, releases, policy.confidence)
    for claim in policy.claim:
        found += claims.checks(claim, releases)
    for utility in policy.utility:
        found += utilities.checks(utility, releases, results.releases, policy.confidence)
    if baseline is not None:
        held = policy.regression or Regression()
        found += regression.checks(results, releases, baseline, held)
    elif policy.regression is not None:
        found.append(_without_baseline(policy.regression))
    found, said = waivers.applied([_inert(check) for check in found], policy.waiver, today)
    notes = tuple(map(visible, said))
    return Outcome(tuple(_inert(c) for c in found), notes, policy.name, strict)


def _without_baseline(held: Regression) -> Check:
    said = (
        "[regression] asks for a baseline, and there is none; `audit baseline update DIR "
        "--reason TEXT` writes audit-baseline.json"
    )
    return Check("regression", "", "", State.INCONCLUSIVE, said, held.line)


def _inert(check: Check) -> Check:
    return replace(
        check,
        release=visible(check.release),
        subject=visible(check.subject),
        sentence=visible(check.sentence),
    )
