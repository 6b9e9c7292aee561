"""Reach: whether a leak of the size that matters would have been called a leak."""

from __future__ import annotations

from audit.core.terms import Shown
from audit.findings.case import LEVEL
from audit.results.measurement import Link, Measurement
from audit.results.words import at_least, percent_at_most

NOTICED = 0.5  # a rate of hits; where only higher ones would be noticed, silence shows nothing


def link(measurement: Measurement, tests: int) -> Link:
    """State what a measurement could have shown. tests: in the family it is adjusted for."""
    n = measurement.n
    if measurement.p_value is None or measurement.least_p * tests >= LEVEL:
        why = measurement.untested or "Too little was measured for any test."
        return Link(state=Shown.NOT_SHOWN, by=why, n=n)
    rate = measurement.power.detectable_rate
    if rate is not None and rate > NOTICED:
        why = f"So few tries would notice a leak only from a rate of {percent_at_most(rate)} on."
        return Link(state=Shown.NOT_SHOWN, by=why, n=n)
    return Link(state=Shown.SHOWN, by=_reach(measurement), n=n)


def _reach(finding: Measurement) -> str:
    """State what the run could have shown."""
    rate, largest = finding.power.detectable_rate, finding.power.largest_epsilon
    if rate is not None and finding.k is not None:
        most = percent_at_most(rate)
        return f"A rate of {most} over different secrets would have been called a leak (95 %)."
    if largest and finding.epsilon_lower is not None:
        return f"A claim of up to ε = {at_least(largest)} nats could have been refuted."
    return ""
