"""Judges a claim from results.json: confirmed, contradicted or inconclusive.

A statement is confirmed where its interval over seeds lies on the stated side, contradicted where
it lies on the other. Confirming a claim takes all statements, each at 95 %. Contradicting it takes
one of k, so that is judged at 1 − 5 %/k. A statement is `seedless` where its measures follow from
the settings alone, as an ε does: then equal values are no accident. Other equal values, such as
those at a measure's ceiling, are judged by the interval of the median from the least value to the
largest, which holds with 1 − 2^(1−n): six seeds suffice for 95 %. So are values of which only the
ends are known, as where no float holds a perplexity. Shares of trials are pooled over seeds: they
speak of these models alone. Where sessions may stop, their number depends on how they come out. The
interval is then that of the mean of the seeds' rates, and holds whenever a session stops, whichever
way the trial that was cut would have gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from audit.core.errors import UsageError
from experiments.estimates import Estimate, difference, nothing, rate
from experiments.measures import Runs, Values, values

LEVEL = 0.05
_Compared = tuple[tuple[Values, ...], Estimate]  # what was read, and how far it bears a statement


class Verdict(StrEnum):
    """The verdict of the runs on a claim, or about one of its statements."""

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
    """Join verdicts: all must be confirmed, and one that is contradicted contradicts."""
    verdicts = {one.verdict for one in judged}
    if Verdict.CONTRADICTED in verdicts:
        return Verdict.CONTRADICTED
    return Verdict.CONFIRMED if verdicts == {Verdict.CONFIRMED} else Verdict.INCONCLUSIVE


def _judged(statement: Mapping[str, Any], runs: Runs, count: int) -> Judged:
    """Judges one of so many statements."""
    kinds: dict[str, Callable[[Mapping[str, Any], Runs], _Compared]] = {
        "less": _less,
        "at_least": _at_least,
        "at_most": _at_most,
        "same": _same,
    }
    named = [kind for kind in kinds if kind in statement]
    if len(named) != 1:
        raise UsageError(f"{statement.get('says')!r}: a statement has one of {', '.join(kinds)}")
    seen, margin = kinds[named[0]](statement, runs)
    low, high = margin.ends(LEVEL)
    verdict = Verdict.INCONCLUSIVE
    if low > 0:
        verdict = Verdict.CONFIRMED
    elif margin.ends(LEVEL / count)[1] < 0:
        verdict = Verdict.CONTRADICTED
    known = [x if math.isfinite(x) else None for x in (margin.middle, low, high)]
    measured = {one.name: one.values for one in seen}
    return Judged(statement["says"], verdict, *known, margin.test, measured)


def _less(statement: Mapping[str, Any], runs: Runs) -> _Compared:
    """`less` is below `times` times `than` (once)."""
    low, high = values(statement["less"], runs), values(statement["than"], runs)
    times = _positive(statement, "times", 1.0)
    scaled = [value for value in (low if times > 1 else high).values if value is not None]
    if times != 1 and min(scaled, default=1.0) <= 0:
        return (low, high), nothing("multiples of what is not positive say nothing")
    return (low, high), difference(high, low, times, _seedless(statement))


def _at_least(statement: Mapping[str, Any], runs: Runs) -> _Compared:
    return _threshold(statement, values(statement["at_least"], runs), 1)


def _at_most(statement: Mapping[str, Any], runs: Runs) -> _Compared:
    return _threshold(statement, values(statement["at_most"], runs), -1)


def _threshold(statement: Mapping[str, Any], seen: Values, side: int) -> _Compared:
    """Compare a measure with a number, on the side where it shall lie."""
    bound = float(statement["value"])
    if seen.counts is not None:
        return (seen,), rate(seen).moved(lambda value: side * (value - bound))
    if seen.log:
        _positive(statement, "value")
    fixed = Values(f"{bound:g}", seen.seeds, (bound,) * len(seen.seeds), log=seen.log)
    pair = (seen, fixed) if side > 0 else (fixed, seen)
    return (seen,), difference(*pair, 1.0, _seedless(statement))


def _same(statement: Mapping[str, Any], runs: Runs) -> _Compared:
    """Judge whether `same` is `as` to within `within` (of logarithms for perplexities)."""
    one, other = values(statement["same"], runs), values(statement["as"], runs)
    within, of = _positive(statement, "within"), difference(one, other, 1.0, _seedless(statement))

    def ends(level: float) -> tuple[float, float]:
        low, high = of.ends(level)
        nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return within - max(abs(low), abs(high)), within - nearest

    test = f"within {within:g}; {of.test}"
    return (one, other), Estimate(within - abs(of.middle), ends, test)


def _positive(statement: Mapping[str, Any], key: str, otherwise: float | None = None) -> float:
    """Read a number of a statement. Raises UsageError unless it is there, and above 0."""
    number = statement.get(key, otherwise)
    if not isinstance(number, (int, float)) or not number > 0:
        raise UsageError(f"{statement['says']!r}: `{key}` must be a number above 0, not {number}")
    return float(number)


def _seedless(statement: Mapping[str, Any]) -> bool:
    return bool(statement.get("seedless", False))
