"""Judges a claim from results.json: confirmed, contradicted or inconclusive.

A statement is confirmed where its interval over seeds lies on the stated side, contradicted where
it lies on the other. Confirming a claim takes all statements, each at 95 %. Contradicting it takes
one of k, so that is judged at 1 − 5 %/k. A statement is `seedless` where its measures follow from
the settings alone, as an ε does: then equal values are no accident. Other equal values, such as
those at a measure's ceiling, are judged by the interval of the median from the least value to the
largest, which holds with 1 − 2^(1−n): six seeds suffice for 95 %. Shares of trials are pooled over
seeds: they speak of these models alone. Where a session stopped, the number of trials depends on
how they came out; then each seed must bear the statement alone, at 1 − 5 %/seeds, whichever way the
trial that was cut would have gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from audit.core.errors import UsageError
from audit.statistics.interval import Interval, clopper_pearson
from audit.statistics.t_interval import t_interval
from experiments.measures import LARGEST, Runs, Values, values

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
    the stated side where positive. low, high: its interval at 95 %; None for none. test: how it was
    judged. measured: every value that was read, by name.
    """

    says: str
    verdict: Verdict
    difference: float
    low: float | None
    high: float | None
    test: str
    measured: Mapping[str, Sequence[float]]

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
    if times != 1 and min((low if times > 1 else high).values) <= 0:
        raise UsageError(f"{statement['says']!r}: multiples of what is not positive say nothing")
    differences = _differences(high, low, times)
    return _from_differences(statement, differences, (low, high), count)


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
        differences = [side * (value - bound) for value in seen.values]
        return _from_differences(statement, differences, (seen,), count)
    stopped = any(seen.cut)
    counts = list(zip(seen.counts, seen.cut, strict=True))
    if not stopped:
        k, n = (sum(column) for column in zip(*seen.counts, strict=True))
        counts = [((k, n), False)]

    def interval(level: float) -> tuple[float, float]:
        """Gives the worst seed's margin; at either end the cut trial is the other way."""
        lows, highs = [], []
        for (k, n), cut in counts:
            fewest = _ends(clopper_pearson(k, n + cut, 1 - level / len(counts)))
            most = _ends(clopper_pearson(k + cut, n + cut, 1 - level / len(counts)))
            ends = (fewest[0], most[1])
            lows.append(min(side * (end - bound) for end in ends))
            highs.append(max(side * (end - bound) for end in ends))
        return min(lows), min(highs)

    test = f"{sum(k for (k, _), _ in counts)} of {sum(n for (_, n), _ in counts)} trials of "
    test += f"{len(seen.counts)} seeds, Clopper-Pearson{', of each seed alone' if stopped else ''}"
    worst = min(side * (k / n - bound) for (k, n), _ in counts)
    return _from_interval(statement, worst, interval, test, (seen,), count)


def _same(statement: Mapping[str, Any], runs: Runs, count: int) -> Judged:
    """`same` differs from `as` by at most `within` (of logarithms for perplexities)."""
    one, other = values(statement["same"], runs), values(statement["as"], runs)
    differences, within = _differences(one, other), float(statement["within"])
    mean = math.fsum(differences) / len(differences)
    of_mean, test = _interval_of(differences, statement)

    def interval(level: float) -> tuple[float, float]:
        low, high = of_mean(level)
        nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return within - max(abs(low), abs(high)), within - nearest

    test = f"within {within:g}; paired {test}"
    return _from_interval(statement, within - abs(mean), interval, test, (one, other), count)


def _differences(one: Values, other: Values, times: float = 1.0) -> list[float]:
    """Subtracts `other` from `times` times `one`, seed by seed. Raises UsageError."""
    if one.log != other.log or one.seeds != other.seeds:
        raise UsageError(f"{one.name!r} and {other.name!r} cannot be compared")
    if any(a == b == LARGEST for a, b in zip(one.values, other.values, strict=True)):
        raise UsageError(f"{one.name!r} and {other.name!r} are both infinite: not comparable")
    pairs = zip(one.values, other.values, strict=True)
    if one.log:
        return [math.log(times) + math.log(a) - math.log(b) for a, b in pairs]
    return [times * a - b for a, b in pairs]


def _from_differences(
    statement: Mapping[str, Any], differences: list[float], seen: Sequence[Values], count: int
) -> Judged:
    interval, test = _interval_of(differences, statement)
    mean = math.fsum(differences) / len(differences)
    return _from_interval(statement, mean, interval, test, seen, count)


def _interval_of(differences: list[float], statement: Mapping[str, Any]) -> tuple[_Interval, str]:
    """Gives the interval of the mean as a function of its level, and says how it is made."""
    n, equal = len(differences), min(differences) == max(differences)

    def interval(level: float) -> tuple[float, float]:
        if equal and (statement.get("seedless", False) or 2.0 ** (1 - n) <= level):
            return differences[0], differences[0]
        return _ends(t_interval(differences, 1 - level))

    return interval, f"differences of {n} seeds, {'least and largest' if equal else 't-interval'}"


def _ends(interval: Interval) -> tuple[float, float]:
    """Gives both ends; an interval that is not known reaches everywhere."""
    low = -math.inf if interval.low is None else interval.low
    return low, math.inf if interval.high is None else interval.high


def _from_interval(
    statement: Mapping[str, Any],
    difference: float,
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
    known = (math.isfinite(low), math.isfinite(high))
    return Judged(
        says=statement["says"],
        verdict=verdict,
        difference=difference,
        low=low if known[0] else None,
        high=high if known[1] else None,
        test=test,
        measured={one.name: one.values for one in seen},
    )
