"""Judges a claim from results.json: confirmed, contradicted or inconclusive.

A statement is confirmed where its interval over seeds lies on the stated side, contradicted where
it lies on the other. Confirming a claim takes all statements, each at 95 %. Contradicting it takes
one of k, so that is judged at 1 − 5 %/k. A statement is `seedless` where its measures follow from
the settings alone, as an ε does: then equal values are no accident. Other equal values, such as
those at a measure's ceiling, are judged by the interval of the median from the least value to the
largest, which holds with 1 − 2^(1−n): six seeds suffice for 95 %. So are values of which only the
ends are known, as where no float holds a perplexity. Shares of trials are pooled over seeds: they
speak of these models alone. Where a session stopped, their number depends on how they came out, and
the interval is one that holds whenever a session stops, whichever way the trial that was cut would
have gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from statistics import median_low
from typing import Any

from audit.core.errors import UsageError
from audit.statistics.interval import Interval, clopper_pearson
from audit.statistics.stopped_rate import stopped_rate
from audit.statistics.t_interval import t_interval
from experiments.measures import Runs, Values, values

LEVEL = 0.05
_Interval = Callable[[float], tuple[float, float]]  # both ends, by the chance of missing the truth


class Verdict(StrEnum):
    """What the runs say about a claim, or about one of its statements."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Judged:
    """A statement with its verdict.

    says: the statement in words. difference: of the seeds' values to what they are held against, on
    the stated side where positive. low, high: its interval at 95 %. Each is None where it has no
    bound. test: how it was judged. measured: every value that was read, by name.
    """

    says: str
    verdict: Verdict
    difference: float | None
    low: float | None
    high: float | None
    test: str
    measured: Mapping[str, Sequence[float | None]]

    @property
    def document(self) -> dict[str, Any]:
        """The statement as JSON values."""
        return asdict(self)


def judge(statements: Sequence[Mapping[str, Any]], runs: Runs) -> list[Judged]:
    """Judges every statement of a claim."""
    return [_judged(statement, runs, len(statements)) for statement in statements]


def overall(judged: Sequence[Judged]) -> Verdict:
    """Joins verdicts: all must be confirmed, and one that is contradicted contradicts."""
    verdicts = {one.verdict for one in judged}
    if Verdict.CONTRADICTED in verdicts:
        return Verdict.CONTRADICTED
    return Verdict.CONFIRMED if verdicts == {Verdict.CONFIRMED} else Verdict.INCONCLUSIVE


def _judged(statement: Mapping[str, Any], runs: Runs, count: int) -> Judged:
    kinds: dict[str, Callable[..., Judged]] = {
        "less": _less,
        "at_least": _at_least,
        "at_most": _at_most,
        "same": _same,
    }
    named = [kind for kind in kinds if kind in statement]
    if len(named) != 1:
        raise UsageError(f"{statement.get('says')!r}: a statement has one of {', '.join(kinds)}")
    return kinds[named[0]](statement, runs, count)


def _less(statement: Mapping[str, Any], runs: Runs, count: int) -> Judged:
    """`less` is below `times` times `than` (once): paired differences of seeds.

    They are of logarithms for perplexities.
    """
    low, high = values(statement["less"], runs), values(statement["than"], runs)
    times = float(statement.get("times", 1))
    scaled = low if times > 1 else high
    if times != 1 and min(least for least, _ in scaled.ends) <= 0:
        raise UsageError(f"{statement['says']!r}: multiples of what is not positive say nothing")
    differences = _differences(high, low, times)
    interval, middle, test = _interval_of(differences, statement)
    return _from_interval(statement, middle, interval, test, (low, high), count)


def _at_least(statement: Mapping[str, Any], runs: Runs, count: int) -> Judged:
    return _threshold(statement, values(statement["at_least"], runs), runs, count, 1)


def _at_most(statement: Mapping[str, Any], runs: Runs, count: int) -> Judged:
    return _threshold(statement, values(statement["at_most"], runs), runs, count, -1)


def _threshold(
    statement: Mapping[str, Any], seen: Values, runs: Runs, count: int, side: int
) -> Judged:
    """Compares a measure with a number: shares of trials pooled, else a t-interval over seeds."""
    bound = float(statement["value"])
    if seen.counts is None:
        fixed = Values("value", seen.seeds, (bound,) * len(seen.seeds), log=seen.log)
        differences = _differences(*((seen, fixed) if side > 0 else (fixed, seen)))
        interval_, middle, test = _interval_of(differences, statement)
        return _from_interval(statement, middle, interval_, test, (seen,), count)
    stopped = any(seen.cut)
    of_rate = (_mean_rate if stopped else _pooled_rate)(seen)

    def interval(level: float) -> tuple[float, float]:
        one, other = (side * (end - bound) for end in of_rate(level))
        return min(one, other), max(one, other)

    k, n = (sum(column) for column in zip(*seen.counts, strict=True))
    test = f"{k} of {n} trials of {len(seen.counts)} seeds, "
    test += "whose sessions stopped, mixture likelihood ratio" if stopped else "Clopper-Pearson"
    middle = side * (k / n - bound) if n else 0.0
    return _from_interval(statement, middle, interval, test, (seen,), count)


def _pooled_rate(seen: Values) -> _Interval:
    """Gives the interval of the rate of all seeds' trials."""
    assert seen.counts is not None
    k, n = (sum(column) for column in zip(*seen.counts, strict=True))
    return lambda level: _ends(clopper_pearson(k, n, 1 - level))


def _mean_rate(seen: Values) -> _Interval:
    """Gives the interval of the mean of the seeds' rates, where the number of trials is by chance.

    Its ends are the means of the seeds' ends, which hold together.
    """
    assert seen.counts is not None
    counts = list(zip(seen.counts, seen.cut, strict=True))

    def interval(level: float) -> tuple[float, float]:
        each = 1 - level / len(counts)
        lows = [_ends(stopped_rate(k, n + cut, each))[0] for (k, n), cut in counts]
        highs = [_ends(stopped_rate(k + cut, n + cut, each))[1] for (k, n), cut in counts]
        return math.fsum(lows) / len(counts), math.fsum(highs) / len(counts)

    return interval


def _same(statement: Mapping[str, Any], runs: Runs, count: int) -> Judged:
    """`same` differs from `as` by at most `within` (of logarithms for perplexities)."""
    one, other = values(statement["same"], runs), values(statement["as"], runs)
    within = float(statement["within"])
    of_middle, middle, test = _interval_of(_differences(one, other), statement)

    def interval(level: float) -> tuple[float, float]:
        low, high = of_middle(level)
        nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return within - max(abs(low), abs(high)), within - nearest

    test = f"within {within:g}; paired {test}"
    return _from_interval(statement, within - abs(middle), interval, test, (one, other), count)


def _differences(one: Values, other: Values, times: float = 1.0) -> list[tuple[float, float]]:
    """Subtracts `other` from `times` times `one`, seed by seed: the least and the most it may be.

    Raises UsageError.
    """
    if one.log != other.log or one.seeds != other.seeds:
        raise UsageError(f"{one.name!r} and {other.name!r} cannot be compared")

    def difference(a: float, b: float) -> float:
        return math.log(times) + math.log(a) - math.log(b) if one.log else times * a - b

    return [
        (difference(a[0], b[1]), difference(a[1], b[0]))
        for a, b in zip(one.ends, other.ends, strict=True)
    ]


def _interval_of(
    differences: Sequence[tuple[float, float]], statement: Mapping[str, Any]
) -> tuple[_Interval, float, str]:
    """Gives an interval as a function of its level, its middle, and how it is made.

    It is the t-interval of the mean, or that of the median where values are equal or only their
    ends are known.
    """
    n, lows, highs = len(differences), *zip(*differences, strict=True)
    exact, equal = lows == highs, min(lows) == max(highs)
    if exact and not equal:
        test = f"differences of {n} seeds, t-interval"
        return (
            lambda level: _ends(t_interval(lows, 1 - level)),
            math.fsum(low / n for low in lows),
            test,
        )

    def interval(level: float) -> tuple[float, float]:
        if (equal and statement.get("seedless", False)) or 2.0 ** (1 - n) <= level:
            return min(lows), max(highs)
        return -math.inf, math.inf

    return interval, median_low(lows), f"differences of {n} seeds, least and largest"


def _ends(interval: Interval) -> tuple[float, float]:
    """Gives both ends; an interval that is not known reaches everywhere."""
    low = -math.inf if interval.low is None else interval.low
    return low, math.inf if interval.high is None else interval.high


def _from_interval(
    statement: Mapping[str, Any],
    middle: float,
    interval: _Interval,
    test: str,
    seen: Sequence[Values],
    count: int,
) -> Judged:
    low, high = interval(LEVEL)
    verdict = Verdict.INCONCLUSIVE
    if low > 0:
        verdict = Verdict.CONFIRMED
    elif interval(LEVEL / count)[1] < 0:
        verdict = Verdict.CONTRADICTED
    difference, low_end, high_end = (x if math.isfinite(x) else None for x in (middle, low, high))
    return Judged(
        says=statement["says"],
        verdict=verdict,
        difference=difference,
        low=low_end,
        high=high_end,
        test=test,
        measured={one.name: one.values for one in seen},
    )
