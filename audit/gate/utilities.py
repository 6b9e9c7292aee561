"""Limits on utility: what protection may cost, against a release of the same run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from statistics import NormalDist

from audit.gate.metric import labels
from audit.gate.outcome import Check, State
from audit.gate.policy import UtilityLimit
from audit.results.schema import Measure, ReleaseResult


def checks(
    limit: UtilityLimit,
    releases: Sequence[tuple[str, ReleaseResult]],
    every: Sequence[ReleaseResult],
    confidence: float,
) -> list[Check]:
    """A check a matching release, held against every release of that name and of the same seed
    among `every` one of the run, references too. A limit that guards nothing fails: it may be
    misspelt.
    """
    found = []
    for label, release in releases:
        if fnmatchcase(release.defense, limit.defense):
            yardsticks = [r for r in every if (r.defense, r.seed) == (limit.of, release.seed)]
            state, said = _against_each(limit, release, yardsticks, confidence)
            found.append(Check("utility", label, limit.metric, state, said, limit.line))
    if found:
        return found
    said = f"no audited release is called {limit.defense}"
    return [Check("utility", limit.defense, limit.metric, State.FAIL, said, limit.line)]


def _against_each(
    limit: UtilityLimit,
    release: ReleaseResult,
    yardsticks: Sequence[ReleaseResult],
    confidence: float,
) -> tuple[State, str]:
    """The worst of them decides, and is told."""
    measure = release.utility.get(limit.metric)
    if measure is None:
        return State.INCONCLUSIVE, f"{limit.metric} was not measured"
    if not yardsticks:
        return _missing(limit.metric, limit.of)
    decided = [
        _decide(limit, measure, name, yardstick.utility.get(limit.metric), confidence)
        for name, yardstick in zip(labels(yardsticks), yardsticks, strict=True)
    ]
    states = [state for state, _ in decided]
    worst = next(s for s in (State.FAIL, State.INCONCLUSIVE, State.PASS) if s in states)
    return worst, "; ".join(said for state, said in decided if state == worst)


def _missing(metric: str, name: str) -> tuple[State, str]:
    return State.INCONCLUSIVE, f"the run has no {metric} of {name} to compare with"


def _decide(
    limit: UtilityLimit, measure: Measure, name: str, beside: Measure | None, confidence: float
) -> tuple[State, str]:
    if beside is None:
        return _missing(limit.metric, name)
    bounds = ratio(measure, beside, confidence)
    if bounds is None:
        return State.INCONCLUSIVE, f"{limit.metric} has no interval to compare by"
    low, high = bounds
    said = (
        f"{measure.value:.4g}, {name} {beside.value:.4g}: between {low:.4g} and {high:.4g} "
        f"times as much ({confidence:.4g} each), allowed "
    )
    if limit.max_ratio is not None:
        met, broken = high <= limit.max_ratio, low > limit.max_ratio
        said += f"at most {limit.max_ratio:.4g}"
    else:
        least = limit.min_ratio or 0.0
        met, broken = low >= least, high < least
        said += f"at least {least:.4g}"
    state = State.PASS if met else State.FAIL if broken else State.INCONCLUSIVE
    return state, said


def ratio(one: Measure, other: Measure, confidence: float) -> tuple[float, float] | None:
    """One-sided bounds on the ratio of two positive measures, from their intervals' logarithms
    (MOVER). They are over the same tokens, so taking them as independent errs on the safe side."""
    if one.ci is None or other.ci is None:
        return None
    if min(one.ci[0], other.ci[0], one.value, other.value) <= 0:
        return None
    if math.isinf(one.ci[1]) or math.isinf(other.ci[1]):
        return None
    down, up = _log_margins(one, confidence)
    other_down, other_up = _log_margins(other, confidence)
    middle = math.log(one.value / other.value)
    low = middle - math.hypot(down, other_up)
    return math.exp(low), math.exp(middle + math.hypot(up, other_down))


def _log_margins(measure: Measure, confidence: float) -> tuple[float, float]:
    assert measure.ci is not None
    normal = NormalDist()
    scale = normal.inv_cdf(confidence) / normal.inv_cdf((1 + measure.confidence) / 2)
    low, high = measure.ci
    return math.log(measure.value / low) * scale, math.log(high / measure.value) * scale
