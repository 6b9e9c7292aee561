"""Absolute limits on metrics: met, broken, or not decided by so many trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

from audit.gate.metric import UNTRAINED, Metric, metrics_of
from audit.gate.outcome import Check, State
from audit.gate.policy import Limit
from audit.results.schema import ReleaseResult
from audit.statistics.interval import one_sided_lower, one_sided_upper
from audit.statistics.power import sample_size_for

_MOST = 10**9
_WIDEST = 1e6  # times as far off as the limit: beyond it no number of trials is worth naming


def checks(
    limit: Limit, releases: Sequence[tuple[str, ReleaseResult]], confidence: float
) -> list[Check]:
    """A check a matching finding. A limit that guards nothing fails: it may be misspelt.

    What asks more than the release gives is not limited: it is not what the release leaks.
    """
    found = []
    for label, release in releases:
        if not fnmatchcase(release.defense, limit.defense):
            continue
        metrics = metrics_of(release.findings)
        for finding in release.findings:
            name = f"{finding.attack}.{finding.metric}"
            if not fnmatchcase(finding.attack, limit.attack):
                continue
            if not fnmatchcase(finding.metric, limit.metric):
                continue
            if finding.stronger_than_release:
                state, said = State.SKIPPED, "asks more than the release gives: no leak of it"
            elif name in metrics:
                state, said = decide(metrics[name], limit.max, confidence)
            else:
                state, said = State.INCONCLUSIVE, "not measured in this run"
            found.append(Check("limit", label, name, state, said, limit.line))
    if found:
        return found
    asked = f"{limit.attack}.{limit.metric}"
    said = f"no finding of an audited release is called {asked} of {limit.defense}"
    return [Check("limit", limit.defense, asked, State.FAIL, said, limit.line)]


def decide(metric: Metric, limit: float, confidence: float) -> tuple[State, str]:
    """PASS if the one-sided upper bound is at most the limit, FAIL if the lower one is above."""
    low, high, sure = bounds(metric, confidence)
    if metric.counted:
        seen = f"{metric.k} of {metric.n}"
    else:
        seen = f"{metric.strength.value:.4g} (n = {metric.n})"
    if low is None or high is None:
        return State.INCONCLUSIVE, f"{seen}, without an interval; limit {limit:.4g}"
    if high <= limit and metric.untrained:
        return State.INCONCLUSIVE, f"{seen}: {UNTRAINED}"
    if high <= limit:
        return State.PASS, f"{seen}: at most {high:.4g} ({sure:.4g}), limit {limit:.4g}"
    if low > limit:
        return State.FAIL, f"{seen}: at least {low:.4g} ({sure:.4g}), limit {limit:.4g}"
    said = f"{seen}: between {low:.4g} and {high:.4g} ({sure:.4g} each), limit {limit:.4g}; "
    return State.INCONCLUSIVE, said + _deciding(metric, limit, confidence)


def bounds(metric: Metric, confidence: float) -> tuple[float | None, float | None, float]:
    """(lower, upper, confidence of each by itself): exact for rates; else the ends of the run's
    own interval, each surer by itself than both together."""
    if metric.counted:
        k, n = metric.k or 0, metric.n
        low, high = one_sided_lower(k, n, confidence), one_sided_upper(k, n, confidence)
        return low, high, confidence
    strength, sure = metric.strength, (1 + metric.confidence) / 2
    if sure < confidence:
        return None, None, sure
    return strength.low, strength.high, sure


def _deciding(metric: Metric, limit: float, confidence: float) -> str:
    if metric.counted:
        n = trials_to_decide(metric.k or 0, metric.n, limit, confidence)
    else:
        n = _about(metric, limit)
    if n is None:
        return "at the limit itself no number of trials decides"
    return f"n = {n:,} would decide if the rest looks the same"


def trials_to_decide(k: int, n: int, limit: float, confidence: float) -> int | None:
    """The fewest trials, hits as frequent as k of n, that put the rate on one side of the limit.

    299 for none of 200 and a limit of 1 % at 95 %. None where no number does.
    """
    if k == 0:
        return sample_size_for(limit, confidence) if 0 < limit < 1 else None
    rate = k / n

    def decided(trials: int) -> bool:
        if rate < limit:
            return one_sided_upper(math.ceil(rate * trials), trials, confidence) <= limit
        return one_sided_lower(math.floor(rate * trials), trials, confidence) > limit

    enough = n
    while not decided(enough):
        enough *= 2
        if rate == limit or enough > _MOST:
            return None
    least = n
    while least < enough:
        middle = (least + enough) // 2
        least, enough = (least, middle) if decided(middle) else (middle + 1, enough)
    return enough


def _about(metric: Metric, limit: float) -> int | None:
    """An interval shrinks with the root of n; so does the side of it that faces the limit."""
    strength = metric.strength
    if strength.value is None or strength.low is None or strength.high is None:
        return None
    away = abs(limit - strength.value)
    side = strength.high - strength.value
    if limit < strength.value:
        side = strength.value - strength.low
    wider = side / away if away > 0 else math.inf
    return math.ceil(metric.n * wider**2) if wider < _WIDEST else None
