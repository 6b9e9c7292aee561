"""Compares the measures of two runs: which differ beyond their intervals, and which do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from audit.findings import bets
from audit.gate import increase_test
from audit.gate.strength import comparable, counted
from audit.results import words
from audit.results.schema import FindingResult, Measure, ReleaseResult
from audit.statistics.holm import adjusted_p_values
from audit.statistics.interval import Interval

LEVEL = 0.05  # an adjusted p below it, with intervals apart, tells two values apart
_NBSP = "\N{NO-BREAK SPACE}"
Measured = FindingResult | Measure
Both = tuple[str, ReleaseResult | None, ReleaseResult | None]


class Change(StrEnum):
    """Kinds of change between two values of one measure."""

    APART = "told apart"
    NOT_APART = "not told apart"
    SAME = "the same"
    ONE_ONLY = "in one run only"


@dataclass(frozen=True)
class Pair:
    """One measure of one release in both runs; None where a run does not have it.

    reference: the release is not an audited one. p: two-sided, of the hypothesis that nothing
    changed; None where no test is possible.
    """

    release: str
    reference: bool
    measure: str
    one: Measured | None
    other: Measured | None
    p: float | None = None

    @property
    def change(self) -> Change:
        """Change of value; apart only where intervals and the adjusted test both separate them."""
        if self.one is None or self.other is None or None in (self.one.value, self.other.value):
            return Change.ONE_ONLY
        if _identical(self.one, self.other):
            return Change.SAME
        apart = _disjoint(self.one, self.other) and self.p is not None and self.p < LEVEL
        return Change.APART if apart else Change.NOT_APART

    @property
    def unit(self) -> str:
        """The unit of both values; both units where they differ."""
        units = [one.unit for one in (self.one, self.other) if one is not None]
        return " / ".join(dict.fromkeys(units))

    @property
    def direction(self) -> str:
        """Direction from the first value to the second; it does not rank them."""
        first = None if self.one is None else self.one.value
        second = None if self.other is None else self.other.value
        if first is None or second is None or self.change != Change.APART:
            return ""
        return "higher" if second > first else "lower"


def pairs(both: Sequence[Both], alike: bool) -> list[Pair]:
    """Pair every measure of the matched releases; p-values are adjusted over all of them (Holm).

    alike: both runs are of one plan, so the outcomes of their secrets may be paired.
    """
    found = [pair for label, a, b in both if a and b for pair in _of(label, a, b, alike)]
    tested = [pair.p for pair in found if pair.p is not None]
    adjusted = iter(adjusted_p_values(tested))
    return [p if p.p is None else replace(p, p=float(next(adjusted))) for p in found]


def written(measured: Measured | None) -> str:
    """Write a value with its interval, and the hits and trials of a rate."""
    if measured is None:
        return "no such measure"
    if measured.value is None:
        leak = isinstance(measured, FindingResult) and measured.leaked.detected
        return "known within bounds only" if leak else "not measured"
    shown = words.measured(measured.value, measured.ci, measured.unit).replace(_NBSP, " ")
    if measured.ci is None:
        shown += " (no interval)"
    if isinstance(measured, FindingResult) and counted(measured):
        return f"{shown}, {measured.k} of {measured.n}"
    return shown


def _of(label: str, a: ReleaseResult, b: ReleaseResult, alike: bool) -> Iterator[Pair]:
    for name in dict.fromkeys([*a.utility, *b.utility]):
        was, now = a.utility.get(name), b.utility.get(name)
        yield Pair(label, a.reference, name, was, now, _utility_p(was, now))
    ones, others = ({(f.attack, f.metric): f for f in r.findings} for r in (a, b))
    for attack, metric in dict.fromkeys([*ones, *others]):
        before, after = (found.get((attack, metric)) for found in (ones, others))
        if any(finding is not None and finding.value is not None for finding in (before, after)):
            p = _finding_p(before, after, alike)
            yield Pair(label, a.reference, f"{attack}.{metric}", before, after, p)


def _identical(one: Measured, other: Measured) -> bool:
    names = ("value", "ci", "n", "confidence", "unit")
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and getattr(one, "k", None) == getattr(other, "k", None)


def _disjoint(one: Measured, other: Measured) -> bool:
    if one.ci is None or other.ci is None or one.unit != other.unit:
        return False
    return one.ci[1] < other.ci[0] or other.ci[1] < one.ci[0]


def _utility_p(was: Measure | None, now: Measure | None) -> float | None:
    if was is None or now is None or was.unit != now.unit:
        return None
    a, b = _interval(was), _interval(now)
    up, down = increase_test.intervals_p_value(a, b), increase_test.intervals_p_value(b, a)
    return _doubled(up, down)


def _interval(m: Measure) -> Interval:
    low, high = m.ci if m.ci is not None else (None, None)
    return Interval(m.value, low, high, m.n, m.confidence, m.method)


def _finding_p(was: FindingResult | None, now: FindingResult | None, alike: bool) -> float | None:
    if was is None or now is None or None in (was.value, now.value):
        return None
    if was.unit != now.unit or not comparable(was):
        return None
    if bets.STOPPED in (was.untested, now.untested):  # of people whose number followed from coins
        return None
    if not alike:  # the secrets may differ, so their outcomes cannot be paired
        was = was.changed(outcomes=None)
    return _doubled(increase_test.p_value(was, now), increase_test.p_value(now, was))


def _doubled(up: float | None, down: float | None) -> float | None:
    """Turn two one-sided p-values into a two-sided one."""
    return None if up is None or down is None else min(1.0, 2 * min(up, down))
