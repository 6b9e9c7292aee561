"""Amount of a leak by a measurement, on a scale that two runs share: higher is worse."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from audit.core.terms import Shown
from audit.results.measurement import FindingResult, Measurement
from audit.results.numbers import rounded
from audit.results.words import WEALTH
from audit.statistics.interval import Interval, IntervalKind

UNTRAINED = "the planted secrets may not have been trained on, so this shows no safety"


def doubt(one: FindingResult) -> str:
    """Explain why a low value shows no safety; empty where it does.

    The measured weights must be those that the planted secrets reached, and the measure must see.
    What a query tells beside its charge needs neither.
    """
    if one.untrained:
        return UNTRAINED
    if one.charge_test is not None:
        return ""
    if one.silence is None:
        return "its conditions were not examined"
    links = (one.silence.contact, one.silence.sight)
    missing = (link.by.rstrip(".") for link in links if link.state == Shown.NOT_SHOWN)
    return next(missing, "")


def measured_in(findings: Iterable[FindingResult]) -> dict[str, FindingResult]:
    """Select the findings with a value, by name."""
    return {finding.name: finding for finding in findings if finding.value is not None}


def counted(one: Measurement) -> bool:
    """Decide whether the value is a rate of k hits in n trials, of which all are known."""
    known = one.kind is not IntervalKind.WITHHELD_RATE
    return known and one.k is not None and one.n > 0 and one.value == rounded(one.k / one.n)


def exact(one: Measurement) -> bool:
    """Decide whether it is a rate whose n was fixed before the trials, as exact tests suppose."""
    return counted(one) and one.cut is None


def comparable(one: Measurement) -> bool:
    """Decide whether runs can be compared by it. An extreme varies with every training more than
    any interval of one run covers, and a bet has none; a limit holds it.
    """
    return not one.metric.startswith(("largest_", "bet_")) and one.unit != WEALTH


def _folded(one: Measurement) -> bool:
    """Decide whether values below one half are as strong as those above: an AUC of .1 is .9."""
    return one.unit == "AUC"


def scale(one: Measurement) -> tuple[float, float]:
    """Compute the least and the largest possible strength; inf where the largest is unknown."""
    least = 0.5 if _folded(one) else 0.0
    if one.unit == "AUC" or one.unit.startswith(("share", "probability")):
        return least, 1.0
    known = one.unit == "bits" and one.space is not None and one.space >= 1
    return least, rounded(math.log2(one.space or 1)) if known else math.inf


def strength(one: Measurement) -> Interval:
    """Compute how much leaks. A two-sided AUC of 0.1 counts as one of 0.9."""
    seen = one.interval
    if not _folded(one) or seen.value is None:
        return seen
    low, high = seen.low, seen.high
    if low is not None and high is not None:
        if seen.value < 0.5:
            low, high = _opposite(high), _opposite(low)
        high = max(high, _opposite(low))
    return replace(seen, value=max(seen.value, _opposite(seen.value)), low=low, high=high)


def _opposite(area: float) -> float:
    return rounded(1 - area)


def shown(one: Measurement) -> str:
    """Format `3 of 200` for a rate, else its strength."""
    return f"{one.k} of {one.n}" if counted(one) else f"{strength(one).value:.4g}"


def between(ci: tuple[float, float] | None) -> str:
    """Format ` [low, high]`; empty without an interval."""
    return "" if ci is None else f" [{ci[0]:.4g}, {ci[1]:.4g}]"
