"""Limits on utility: what protection may cost, compared with a release of the same run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from audit.gate.matching import Releases, matching, unmatched
from audit.gate.outcome import Check, State
from audit.gate.policy import UtilityLimit
from audit.results.labels import labels
from audit.results.schema import Measure, ReleaseResult


def checks(
    limit: UtilityLimit,
    releases: Releases,
    every: Sequence[ReleaseResult],
    confidence: float,
) -> list[Check]:
    """Check the utility of each matching release. Fails if no release or no measure matches.

    A release is compared with every release of the run (`every`, references too) that has the
    limit's name `of` and the same seed; with the reference of that name alone, if there is one.
    """
    checks, measured = [], dict.fromkeys(name for one in every for name in one.utility)
    if measured and limit.metric not in measured:
        what = f"the run measures no {limit.metric}; it measures {', '.join(measured)}"
        return [unmatched("utility", limit.defense, limit.metric, limit.line, what)]
    for label, release in matching(releases, limit.defense):
        named = [r for r in every if (r.defense, r.seed) == (limit.of, release.seed)]
        yardsticks = [r for r in named if r.reference] or named
        state, sentence = _against_each(limit, release, yardsticks, confidence)
        checks.append(Check("utility", label, limit.metric, state, sentence, limit.line))
    return checks or [unmatched("utility", limit.defense, limit.metric, limit.line)]


def _against_each(
    limit: UtilityLimit,
    release: ReleaseResult,
    yardsticks: Sequence[ReleaseResult],
    confidence: float,
) -> tuple[State, str]:
    """Return the worst state of all comparisons, and the sentences of those that have it."""
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
    return worst, "; ".join(sentence for state, sentence in decided if state == worst)


def _missing(metric: str, name: str) -> tuple[State, str]:
    return State.INCONCLUSIVE, f"the run has no {metric} of {name} to compare with"


def _decide(
    limit: UtilityLimit, measure: Measure, name: str, yardstick: Measure | None, confidence: float
) -> tuple[State, str]:
    if yardstick is None:
        return _missing(limit.metric, name)
    bounds = ratio(measure, yardstick, confidence)
    if bounds is None:
        return State.INCONCLUSIVE, f"{limit.metric} has no interval to compare by"
    low, high = bounds
    if limit.max_ratio is not None:
        met, broken = high <= limit.max_ratio, low > limit.max_ratio
        allowed = f"at most {limit.max_ratio:.4g}"
    else:
        least = limit.min_ratio or 0.0
        met, broken = low >= least, high < least
        allowed = f"at least {least:.4g}"
    state = State.PASS if met else State.FAIL if broken else State.INCONCLUSIVE
    return state, (
        f"{measure.value:.4g}, {name} {yardstick.value:.4g}: the ratio is between {low:.4g} and "
        f"{high:.4g} (confidence {confidence:.4g} each), allowed {allowed}"
    )


def ratio(one: Measure, other: Measure, confidence: float) -> tuple[float, float] | None:
    """Bound the ratio of two positive measures from one side; None without usable intervals.

    MOVER on the logarithms of their intervals. Both are measured on the same tokens, so treating
    them as independent errs on the safe side.
    """
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
