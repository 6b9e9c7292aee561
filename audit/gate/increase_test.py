"""Has a measurement risen? One-sided tests between two runs, and the rise they would notice.

The same secrets in both runs: McNemar's exact test (1947) on those whose outcome changed. Two rates
without that: Fisher's exact test (1935). Other values: from their intervals, each contributing the
side that faces the other value (Zou and Donner, Statistics in Medicine 27, 2008; MOVER). The last
two take the runs as independent; where they share secrets their outcomes are positively correlated,
which makes both err on the side of no alarm.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from audit.gate import interval_at
from audit.gate.metric import Metric
from audit.statistics import binomial
from audit.statistics.interval import Interval, one_sided_upper

_FAR = 1e5  # a standard deviation that the normal law serves
_NEAR = 1e-5  # how closely a value is found, of the scale


def p_value(before: Metric, after: Metric) -> float | None:
    """Of "no worse than before", one-sided; None where an interval is missing."""
    pairs = paired(before, after)
    if pairs is not None:
        return mcnemar(*pairs)
    if before.counted and after.counted:
        return fisher(before.k or 0, before.n, after.k or 0, after.n)
    return _of_intervals(before.strength, after.strength, after)


def _of_intervals(before: Interval, after: Interval, of: Metric) -> float | None:
    """MOVER, as far as the intervals bear it.

    An end at the end of the scale, though the value is not there, is no margin: the data say
    nothing on that side. What is nearer than the ends is doubled: there a skewed interval is not
    the normal law's, and its inside is not known. And n values are all on one side of their median
    with probability 2⁻ⁿ, however far off they are.
    """
    p = rise_of_intervals(before, after)
    if p is None or before.value is None or after.value is None:
        return p
    no_high = before.high is not None and before.value < of.scale[1] <= before.high
    no_low = after.low is not None and after.low <= 0.0 < after.value
    if no_high or no_low:
        return 1.0
    own = (1.0 - min(before.confidence, after.confidence)) / 2.0
    least = 0.5 ** min(before.n, after.n) if of.unit == "bits" else 0.0
    return max(least, p if p <= own else min(1.0, 2.0 * p))


def paired(before: Metric, after: Metric) -> tuple[int, int] | None:
    """(secrets that leak only now, secrets that leaked only before), of those known in both runs.

    None where the runs do not say so, or not of as many secrets. Whether the secrets are the same
    is for the caller to know: `outcomes` of runs of one plan are.
    """
    one, other = before.outcomes, after.outcomes
    if one is None or other is None or len(one) != len(other):
        return None
    both = list(zip(one, other, strict=True))
    return both.count(("0", "1")), both.count(("1", "0"))


def risen(before: Metric, after: Metric) -> float:
    """By how much more leaks than before; of the secrets that both runs know, where they pair."""
    pairs = paired(before, after)
    if pairs is None:
        return (after.strength.value or 0.0) - (before.strength.value or 0.0)
    gained, lost = pairs
    return (gained - lost) / max(1, _measured(before, after))


def mcnemar(gained: int, lost: int) -> float:
    """P[Bin(gained + lost, ½) ≥ gained], one-sided: where nothing changed, a secret whose outcome
    differs is as likely to have gained as to have lost."""
    changed = gained + lost
    return binomial.p_value(gained, changed, 0.5) if changed else 1.0


def fisher(k_before: int, n_before: int, k_after: int, n_after: int) -> float:
    """P[at least k_after of the hits fall into the second sample | hits in all], one-sided.

    A sum of hypergeometric weights, each relative to its neighbour and all within 40 standard
    deviations and 600: what lies beyond is less than any float.
    """
    hits, n = k_before + k_after, n_before + n_after
    mean = hits * (n_after / n)
    deviation = math.sqrt(mean * (n_before / n) * ((n - hits) / max(1, n - 1)))
    if deviation > _FAR:
        return NormalDist().cdf((mean - k_after + 0.5) / deviation)
    window = 40 * deviation + 600
    first = max(0, hits - n_before, math.floor(mean - window))
    last = min(n_after, hits, math.ceil(mean + window))
    j = np.arange(first, last, dtype=np.float64)
    ups, downs = (n_after - j) * (hits - j), (j + 1.0) * (n_before - hits + j + 1.0)
    logs = np.concatenate([[0.0], np.cumsum(np.log(ups / downs))])
    weights = np.exp(logs - logs.max())
    return float(weights[max(0, k_after - first) :].sum() / weights.sum())


def rise_of_intervals(before: Interval, after: Interval) -> float | None:
    """Normal approximation with the margin each interval has towards the other value."""
    margin = _margin(before, after)
    if margin is None or before.value is None or after.value is None:
        return None
    rise = after.value - before.value
    if rise <= 0:
        return 1.0
    return NormalDist().cdf(-rise / margin) if margin > 0 else 0.0


def _margin(before: Interval, after: Interval) -> float | None:
    """Standard error of the difference, as the two intervals tell it."""
    if before.value is None or after.value is None:
        return None
    if before.high is None or after.low is None:
        return None
    up = (before.high - before.value) / _z(before)
    down = (after.value - after.low) / _z(after)
    return math.hypot(up, down)


def _z(interval: Interval) -> float:
    return NormalDist().inv_cdf((1 + interval.confidence) / 2)


def enough(before: Metric, after: Metric, level: float) -> bool:
    """Whether so many trials are sure to show any rise, were it from the least to the most."""
    if paired(before, after) is not None:
        return 0.5 ** _measured(before, after) < level
    if before.counted and after.counted:
        return fisher(0, before.n, after.n, after.n) < level
    least, most = after.scale
    nothing, all_of_it = interval_at.at(before, least, most), interval_at.at(after, most, most)
    if nothing is None or all_of_it is None:
        return False
    return _below(_of_intervals(nothing, all_of_it, after), level)


def _below(p: float | None, level: float) -> bool:
    return p is not None and p < level


def full(metric: Metric) -> bool:
    """Whether as much leaks as can: no rise is possible."""
    return metric.strength.value is not None and metric.strength.value >= metric.scale[1] - 1e-9


def noticed(
    before: Metric, after: Metric, level: float, min_delta: float, power: float = 0.8
) -> float | None:
    """The value that a test at `level` would have called a rise with this power; None: none, or
    none that is known.

    For intervals it is the value that would just have been called one, with the interval that as
    many trials give there; for the same secrets, had none of them ceased to leak.
    """
    if paired(before, after) is not None:
        return _noticed_pairs(before, after, level, min_delta, power)
    if not (before.counted and after.counted):
        return _noticed_value(before, after, level, min_delta)
    k, n = before.k or 0, after.n

    def fails(hits: int) -> bool:
        return hits / n - before.value >= min_delta and fisher(k, before.n, hits, n) < level

    if not fails(n):
        return None
    none, some = -1, n
    while some - none > 1:
        middle = (none + some) // 2
        none, some = (none, middle) if fails(middle) else (middle, some)
    return one_sided_upper(some - 1, n, power)


def _noticed_value(before: Metric, after: Metric, level: float, min_delta: float) -> float | None:
    was, most = before.strength, after.scale[1]
    ends = interval_at.ends(after, most)
    if was.value is None or ends is None:
        return None

    def fails(value: float) -> bool:
        there = Interval(value, *ends(value), after.n, after.confidence, "as many trials")
        return _below(_of_intervals(was, there, after), level)

    none, some = was.value + min_delta, most
    if none > some or not fails(some):
        return None
    if fails(none):
        return none
    while some - none > _NEAR * most:
        middle = (none + some) / 2
        none, some = (none, middle) if fails(middle) else (middle, some)
    return some


def _measured(before: Metric, after: Metric) -> int:
    """Secrets whose outcome both runs know."""
    both = zip(before.outcomes or "", after.outcomes or "", strict=True)
    return sum("-" not in pair for pair in both)


def _noticed_pairs(
    before: Metric, after: Metric, level: float, min_delta: float, power: float
) -> float | None:
    """Each secret that did not leak would have to with this probability."""
    n, value = _measured(before, after), before.value
    both = zip(before.outcomes or "", after.outcomes or "", strict=True)
    silent = sum(pair in (("0", "0"), ("0", "1")) for pair in both)
    gained = max(math.floor(-math.log2(level)) + 1, math.ceil(min_delta * n - 1e-9))
    if gained > silent:
        return None
    return float(value + one_sided_upper(gained - 1, silent, power) * silent / n)
