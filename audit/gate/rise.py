"""Has a measurement risen? One-sided tests between two runs, and the rise they would notice.

The same secrets in both runs: McNemar's exact test (1947) on those whose outcome changed. Two rates
without that: Fisher's exact test (1935). Other values: from their intervals, each contributing the
side that faces the other value (Zou and Donner, Statistics in Medicine 27, 2008; MOVER). The last
two take the runs as independent; where they share secrets their outcomes are positively correlated,
which makes both err on the side of no alarm.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from statistics import NormalDist

from audit.gate.metric import Metric
from audit.statistics.interval import Interval, one_sided_upper


def p_value(before: Metric, after: Metric) -> float | None:
    """Of "no worse than before", one-sided; None where an interval is missing."""
    pairs = paired(before, after)
    if pairs is not None:
        return mcnemar(*pairs)
    if before.counted and after.counted:
        return fisher(before.k or 0, before.n, after.k or 0, after.n)
    return rise_of_intervals(before.strength, after.strength)


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
    from audit.statistics import binomial

    changed = gained + lost
    return binomial.p_value(gained, changed, 0.5) if changed else 1.0


def fisher(k_before: int, n_before: int, k_after: int, n_after: int) -> float:
    """P[at least k_after of the hits fall into the second sample | hits in all], one-sided."""
    hits = k_before + k_after
    k = max(k_after, hits - n_before)
    ways, all_ways = math.comb(n_after, k) * math.comb(n_before, hits - k), 0
    while ways:
        all_ways += ways
        ways = ways * (n_after - k) * (hits - k) // ((k + 1) * (n_before - hits + k + 1))
        k += 1
    return all_ways / math.comb(n_before + n_after, hits)


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


def _critical(before: Metric, after: Metric, level: float) -> float | None:
    margin = _margin(before.strength, after.strength)
    return None if margin is None else -NormalDist().inv_cdf(level) * margin


def _z(interval: Interval) -> float:
    return NormalDist().inv_cdf((1 + interval.confidence) / 2)


def enough(before: Metric, after: Metric, level: float) -> bool:
    """Whether so many trials could show any rise at all, were it from the least to the most."""
    if paired(before, after) is not None:
        return 0.5 ** _measured(before, after) < level
    if before.counted and after.counted:
        return fisher(0, before.n, after.n, after.n) < level
    least, most = after.scale
    critical = _critical(before, after, level)
    return critical is not None and least + critical <= most


def full(metric: Metric) -> bool:
    """Whether as much leaks as can: no rise is possible."""
    return metric.strength.value is not None and metric.strength.value >= metric.scale[1] - 1e-9


def noticed(
    before: Metric, after: Metric, level: float, min_delta: float, power: float = 0.8
) -> float | None:
    """The value that a test at `level` would have called a rise with this power; None: none.

    For intervals it is the value that would just have been called one, with the margins as they
    are; for the same secrets, had none of them ceased to leak.
    """
    if paired(before, after) is not None:
        return _noticed_pairs(before, after, level, min_delta, power)
    if not (before.counted and after.counted):
        was, critical = before.strength.value, _critical(before, after, level)
        least = None if was is None or critical is None else was + max(min_delta, critical)
        return None if least is None or least > after.scale[1] else least
    k, n = before.k or 0, after.n

    def fails(hits: int) -> bool:
        return hits / n - before.value >= min_delta and fisher(k, before.n, hits, n) < level

    hits = bisect_left(range(n + 1), True, key=fails)
    return None if hits > n else one_sided_upper(hits - 1, n, power)


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
