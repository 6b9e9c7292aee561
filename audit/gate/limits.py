"""Absolute limits on metrics: met, broken, or not decided by this number of trials."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fnmatch import fnmatchcase

from audit.gate.matching import Releases, matching, unmatched
from audit.gate.outcome import Check, State
from audit.gate.policy import Limit
from audit.gate.strength import counted, doubt, exact, shown, strength
from audit.results.measurement import Measurement
from audit.results.schema import ReleaseResult
from audit.results.words import at_least, at_most
from audit.statistics.clopper_pearson import one_sided_lower, one_sided_upper
from audit.statistics.power import sample_size_for
from audit.statistics.stopped_rate import Series, stopped_rate

_MOST_TRIALS = 10**9
_WIDEST = 1e6  # side of the interval / distance to the limit; beyond it no n is worth naming


def checks(limit: Limit, releases: Releases, confidence: float) -> list[Check]:
    """Check each matching finding. Fails if no finding matches.

    A finding that needs more access than the release gives is skipped: the release leaks no such
    thing.
    """
    checks = []
    for label, release in matching(releases, limit.defense):
        for finding in release.findings:
            if not fnmatchcase(finding.attack, limit.attack):
                continue
            if not fnmatchcase(finding.metric, limit.metric):
                continue
            if finding.charge_test is not None and finding.metric != limit.metric:
                continue  # what a query tells beside its charge is no rate of leaks
            if finding.stronger_than_release:
                state, sentence = State.SKIPPED, "needs more access than the release gives"
            elif finding.value is not None:
                state, sentence = decide(finding, limit.max, confidence, doubt(finding))
            else:
                state, sentence = State.INCONCLUSIVE, "not measured in this run"
            checks.append(Check("limit", label, finding.name, state, sentence, limit.line))
    wanted = f"{limit.attack}.{limit.metric}"
    missing = f"no finding of an audited release matches {wanted} of {limit.defense}"
    return checks or [unmatched("limit", limit.defense, wanted, limit.line, missing)]


def named(release: ReleaseResult, every: Sequence[Limit]) -> dict[str, str]:
    """Find what allows a leak by `attack.metric`: a limit that names it without wildcards."""
    return {
        f.name: f"the limit{'' if limit.line is None else f' of line {limit.line}'}"
        for limit in every
        for f in release.findings
        if fnmatchcase(release.defense, limit.defense)
        and fnmatchcase(f.attack, limit.attack)
        and f.metric == limit.metric
    }


def decide(
    one: Measurement, limit: float, confidence: float, doubtful: str = ""
) -> tuple[State, str]:
    """Return PASS if the upper bound is at most the limit, FAIL if the lower one is above it.

    doubtful: why a low value would show no safety.
    """
    low, high, sure = bounds(one, confidence)
    seen = shown(one) if counted(one) else f"{shown(one)} (n = {one.n})"
    allowed = f"limit {limit:.4g}"
    if low is None or high is None:
        return State.INCONCLUSIVE, f"{seen}, without an interval; {allowed}"
    if high <= limit and doubtful:
        return State.INCONCLUSIVE, f"{seen}: {doubtful}"
    if high <= limit:
        return State.PASS, f"{seen}: at most {at_most(high, 4)} (confidence {sure:.4g}), {allowed}"
    if low > limit:
        return State.FAIL, f"{seen}: at least {at_least(low, 4)} (confidence {sure:.4g}), {allowed}"
    ends = f"between {at_least(low, 4)} and {at_most(high, 4)} (confidence {sure:.4g} each)"
    between = f"{seen}: {ends}, {allowed}"
    return State.INCONCLUSIVE, f"{between}; {_deciding(one, limit, confidence)}"


def bounds(one: Measurement, confidence: float) -> tuple[float | None, float | None, float]:
    """Return (lower, upper, confidence of each bound alone).

    Exact for rates, and safe for those whose n depends on how the trials came out. Otherwise the
    ends of the run's own two-sided interval, whose error is split between its ends.
    """
    if counted(one):
        return *_ends(one.k or 0, one.n, exact(one), confidence), confidence
    seen, sure = strength(one), (1 + one.confidence) / 2
    if sure < confidence:
        return None, None, sure
    return seen.low, seen.high, sure


def _ends(k: int, n: int, fixed: bool, confidence: float) -> tuple[float, float]:
    """Bound a rate from both sides, each with this confidence. fixed: whether n was, before."""
    if fixed:
        return one_sided_lower(k, n, confidence), one_sided_upper(k, n, confidence)
    stopped = stopped_rate([Series(k, n)], confidence)
    return stopped.low or 0.0, 1.0 if stopped.high is None else stopped.high


def _deciding(one: Measurement, limit: float, confidence: float) -> str:
    if counted(one):
        n = trials_to_decide(one.k or 0, one.n, limit, confidence, exact(one))
    else:
        n = _about(one, limit)
    if n is None:
        return "at the limit itself no number of trials decides"
    return f"n = {n:,} would decide at the same rate"


def trials_to_decide(
    k: int, n: int, limit: float, confidence: float, fixed: bool = True
) -> int | None:
    """Return the fewest trials that put the rate on one side of the limit, hits as in k of n.

    299 for none of 200 and a limit of 1 % at 95 %. None where no number does. fixed: whether
    n was fixed before the trials.
    """
    if k == 0 and fixed:
        return sample_size_for(limit, confidence) if 0 < limit < 1 else None
    rate = k / n

    def decided(trials: int) -> bool:
        if rate < limit:
            return _ends(math.ceil(rate * trials), trials, fixed, confidence)[1] <= limit
        return _ends(math.floor(rate * trials), trials, fixed, confidence)[0] > limit

    enough = n
    while not decided(enough):
        enough *= 2
        if rate == limit or enough > _MOST_TRIALS:
            return None
    return n + bisect_left(range(n, enough), True, key=decided)


def _about(one: Measurement, limit: float) -> int | None:
    """Return the n at which the interval ends at the limit: its side shrinks with the root of n."""
    seen = strength(one)
    if seen.value is None or seen.low is None or seen.high is None:
        return None
    away = abs(limit - seen.value)
    side = seen.high - seen.value if limit >= seen.value else seen.value - seen.low
    wider = side / away if away > 0 else math.inf
    return math.ceil(one.n * wider**2) if wider < _WIDEST else None
