"""Has a metric increased? One-sided tests between two runs, and the increase they would detect.

- The same secrets in both runs: McNemar's exact test (1947) on those whose outcome changed.
- Two rates otherwise: Fisher's exact test (1935), unless a session chose the number of trials.
- Other values: from their intervals, each with its margin towards the other value (MOVER: Zou and
  Donner, Statistics in Medicine 27, 2008).

The last two treat the runs as independent. Runs that share secrets are positively correlated, so
both tests then err towards no alarm.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from statistics import NormalDist

import numpy as np

from audit.gate import interval_at
from audit.gate.strength import exact, scale, strength
from audit.results.measurement import Measurement
from audit.results.numbers import rounded
from audit.statistics import binomial
from audit.statistics.clopper_pearson import one_sided_upper
from audit.statistics.interval import Interval, IntervalKind

_FAR = 1e5  # a standard deviation from which on the normal law serves
_NEAR = 1e-5  # precision of a searched value, relative to the scale


def p_value(before: Measurement, after: Measurement) -> float | None:
    """Compute the one-sided p-value of "no worse than before"; None without intervals."""
    pairs = paired(before, after)
    if pairs is not None:
        return mcnemar(*pairs)
    if exact(before) and exact(after):
        return fisher(before.k or 0, before.n, after.k or 0, after.n)
    return _mover_p_value(strength(before), strength(after), after)


def _mover_p_value(before: Interval, after: Interval, of: Measurement) -> float | None:
    """Compute the p-value by MOVER, made conservative where the intervals do not support it.

    - An interval that ends at the end of the scale, while the value does not, has no margin on
      that side: the data are uninformative there, so p = 1.
    - A p-value above the intervals' own level is doubled: inside a skewed interval the normal law
      need not hold.
    - All of n values lie on one side of their median with probability 2⁻ⁿ, so p is no smaller.
    """
    p = intervals_p_value(before, after)
    if p is None or before.value is None or after.value is None:
        return p
    no_high = before.high is not None and before.value < scale(of)[1] <= before.high
    no_low = after.low is not None and after.low <= 0.0 < after.value
    if no_high or no_low:
        return 1.0
    own = (1.0 - min(before.confidence, after.confidence)) / 2.0
    least = 0.5 ** min(before.n, after.n) if of.unit == "bits" else 0.0
    return max(least, p if p <= own else min(1.0, 2.0 * p))


def paired(before: Measurement, after: Measurement) -> tuple[int, int] | None:
    """Return (secrets that leak only now, secrets that leaked only before), known in both runs.

    None where a run has no outcomes, or not of as many secrets. The caller ensures that the secrets
    are the same, as in two runs of one plan.
    """
    one, other = before.outcomes, after.outcomes
    if one is None or other is None or len(one) != len(other):
        return None
    if IntervalKind.WITHHELD_RATE in (before.kind, after.kind):  # a 0 may be a 1 withheld
        return None
    both = list(zip(one, other, strict=True))
    return both.count(("0", "1")), both.count(("1", "0"))


def increase(before: Measurement, after: Measurement) -> float:
    """Compute how much more leaks than before; for pairs, over secrets measured in both runs."""
    pairs = paired(before, after)
    if pairs is None:
        return rounded((strength(after).value or 0.0) - (strength(before).value or 0.0))
    gained, lost = pairs
    return rounded((gained - lost) / max(1, _measured(before, after)))


def mcnemar(gained: int, lost: int) -> float:
    """Compute P[Bin(gained + lost, ½) ≥ gained], one-sided.

    Where nothing changed, a secret whose outcome differs is as likely to be gained as lost.
    """
    changed = gained + lost
    return binomial.p_value(gained, changed, 0.5) if changed else 1.0


def fisher(k_before: int, n_before: int, k_after: int, n_after: int) -> float:
    """Compute P[at least k_after of all hits are in the second sample | number of hits].

    A sum of hypergeometric weights, each relative to its neighbour, over 40 standard deviations
    and 600 on both sides of the mean. The weights beyond are smaller than any float.
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
    return min(1.0, float(weights[max(0, k_after - first) :].sum() / weights.sum()))


def intervals_p_value(before: Interval, after: Interval) -> float | None:
    """Compute the p-value by MOVER: the normal law, each interval's margin towards the other."""
    margin = _margin(before, after)
    if margin is None or before.value is None or after.value is None:
        return None
    difference = after.value - before.value
    if difference <= 0:
        return 1.0
    return NormalDist().cdf(-difference / margin) if margin > 0 else 0.0


def _margin(before: Interval, after: Interval) -> float | None:
    """Return the standard error of the difference, from the two intervals."""
    if before.value is None or after.value is None:
        return None
    if before.high is None or after.low is None:
        return None
    up = (before.high - before.value) / _z(before)
    down = (after.value - after.low) / _z(after)
    return math.hypot(up, down)


def _z(interval: Interval) -> float:
    return NormalDist().inv_cdf((1 + interval.confidence) / 2)


def can_detect(before: Measurement, after: Measurement, level: float) -> bool:
    """Return whether the largest increase, from nothing to everything, is sure to be detected."""
    if paired(before, after) is not None:
        return 0.5 ** _measured(before, after) < level
    if exact(before) and exact(after):
        return fisher(0, before.n, after.n, after.n) < level
    least, most = scale(after)
    nothing, everything = interval_at.at(before, least, most), interval_at.at(after, most, most)
    if nothing is None or everything is None:
        return False
    return _below(_mover_p_value(nothing, everything, after), level)


def _below(p: float | None, level: float) -> bool:
    return p is not None and p < level


def is_largest(one: Measurement) -> bool:
    """Return whether everything leaks already: no increase is possible."""
    value = strength(one).value
    return value is not None and value >= scale(one)[1]


def detectable(
    before: Measurement, after: Measurement, level: float, min_delta: float, power: float = 0.8
) -> float | None:
    """Return the value that a test at `level` detects as an increase with this power, if known.

    For intervals: the least value that fails, given the interval that as many trials have there.
    For the same secrets: assuming that none of them stopped leaking.
    """
    if paired(before, after) is not None:
        return _detectable_pairs(before, after, level, min_delta, power)
    if not (exact(before) and exact(after)):
        return _detectable_value(before, after, level, min_delta)
    k, n, value = before.k or 0, after.n, before.value or 0.0

    def fails(hits: int) -> bool:
        return (
            rounded(rounded(hits / n) - value) >= min_delta and fisher(k, before.n, hits, n) < level
        )

    if not fails(n):
        return None
    return one_sided_upper(bisect_left(range(n), True, key=fails) - 1, n, power)


def _detectable_value(
    before: Measurement, after: Measurement, level: float, min_delta: float
) -> float | None:
    was, most = strength(before), scale(after)[1]
    ends = interval_at.ends(after, most)
    if was.value is None or ends is None:
        return None

    def fails(value: float) -> bool:
        there = Interval(value, *ends(value), after.n, after.confidence, "as many trials")
        return _below(_mover_p_value(was, there, after), level)

    low, high = was.value + min_delta, most  # passes; fails
    if low > high or not fails(high):
        return None
    if fails(low):
        return low
    while high - low > _NEAR * most:
        middle = (low + high) / 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return high


def _measured(before: Measurement, after: Measurement) -> int:
    """Return the number of secrets whose outcome is known in both runs."""
    both = zip(before.outcomes or "", after.outcomes or "", strict=True)
    return sum("-" not in pair for pair in both)


def _detectable_pairs(
    before: Measurement, after: Measurement, level: float, min_delta: float, power: float
) -> float | None:
    """Compute `detectable` if each secret that did not leak starts to with the same probability."""
    n, value = _measured(before, after), before.value or 0.0
    both = zip(before.outcomes or "", after.outcomes or "", strict=True)
    silent = sum(pair in (("0", "0"), ("0", "1")) for pair in both)
    gained = max(math.floor(-math.log2(level)) + 1, math.ceil(rounded(min_delta * n)))
    if gained > silent:
        return None
    return float(value + one_sided_upper(gained - 1, silent, power) * silent / n)
