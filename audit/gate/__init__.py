"""The gate: one verdict on a run, which console, exit code, JUnit, SARIF and summary all show."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace

from audit.core.visible import visible
from audit.findings.loose_delta import loose_delta
from audit.gate import claims, leaks, limits, regression, settings, utilities, waivers
from audit.gate.baseline import Baseline
from audit.gate.matching import Releases
from audit.gate.outcome import Check, Outcome, State
from audit.gate.policy import Policy, Regression
from audit.results import badge
from audit.results.labels import labels
from audit.results.schema import Results


def verdict(
    results: Results,
    policy: Policy,
    baseline: Baseline | None,
    today: datetime.date,
    strict: bool = False,
) -> Outcome:
    """Check a run, or a sweep, against its policy and baseline. References are never checked.

    today: decides which waivers are valid. Every string of the outcome is printable, on one line.
    """
    places = [place for place, one in enumerate(results.releases) if not one.reference]
    audited = [results.releases[place] for place in places]
    releases = list(zip(labels(audited), audited, strict=True))
    same = regression.same_plan(results, baseline)
    joint = settings.settings_of(results, policy, same)
    rule = policy.regression or Regression()
    alone = policy.leaks is None and not policy.limit and baseline is None
    every = bool(policy.leaks) or alone
    checks: list[Check] = [*settings.missing(results)]
    for place, (label, release) in zip(places, releases, strict=True):
        allowed = settings.allowed([release], policy, same)
        own = leaks.checks(label, release, allowed, every, policy)
        checks += settings.judged(own, place, joint)
    checks += settings.checks(joint, policy, every)
    for limit in policy.limit:
        checks += limits.checks(limit, releases, policy.confidence)
    for claim in policy.claim:
        checks += claims.checks(claim, releases)
    for utility in policy.utility:
        checks += utilities.checks(utility, releases, results.releases, policy.confidence)
    if baseline is not None:
        checks += regression.checks(results, releases, baseline, rule)
    elif policy.regression is not None:
        checks.append(_without_baseline(policy.regression))
    checks, notes = waivers.applied([_escaped(check) for check in checks], policy.waiver, today)
    notes = [*_loose(results, releases), *notes]
    shown = tuple(_escaped(check) for check in checks)
    return Outcome(shown, tuple(map(visible, notes)), policy.name, strict, badge.line(results))


def _loose(results: Results, releases: Releases) -> Iterator[str]:
    """Warn of each claim whose δ permits publishing one person's data outright."""
    for label, release in releases:
        why = loose_delta(release.guarantee, results.corpus.users, results.corpus.records)
        if why:
            yield f"{label}: {why}"


def _without_baseline(rule: Regression) -> Check:
    sentence = (
        "[regression] needs a baseline, and there is none; `audit baseline update DIR "
        "--reason TEXT` writes audit-baseline.json"
    )
    return Check("regression", "", "", State.INCONCLUSIVE, sentence, rule.line)


def _escaped(check: Check) -> Check:
    return replace(
        check,
        release=visible(check.release),
        subject=visible(check.subject),
        sentence=visible(check.sentence),
    )
