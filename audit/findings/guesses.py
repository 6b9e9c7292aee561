"""Guesses of who was trained on, as a test of a leak: coins that refute a claim have found one.

The same guesses test a claim, on its curve or by a bound on ε. If nothing leaks, each is right with
probability one half.
"""

from __future__ import annotations

from collections.abc import Mapping

from audit.core.guarantee import Guarantee
from audit.findings import bounds, mechanism
from audit.findings.case import Case
from audit.findings.rejections import claim_p_value
from audit.results.measurement import Measurement
from audit.statistics.binomial import tail
from audit.statistics.tossed import Guessed, Tossed


def name_of(test: str) -> str:
    """Name the test of the guesses behind the bound, or the test of the claim, of a measure."""
    return f"{test}: guesses"


def p_value(measurement: Measurement) -> float:
    """Compute the p-value of the guesses behind a measurement, unadjusted, if nothing leaked."""
    test, bound = measurement.claim_test, measurement.epsilon_lower
    guesses = [] if bound is None or bound.guesses is None else bound.guesses
    guesses = guesses if test is None else [(test.r, test.v)]
    least = min((tail(right, every, 0.5) for every, right in guesses), default=1.0)
    return min(1.0, max(1, len(guesses)) * least)


def test_claim(measurement: Measurement, guarantee: Guarantee) -> bool:
    """Return whether a measurement tests the claim by guesses of who was trained on."""
    if not bounds.by_guesses(measurement.epsilon_lower):
        return False
    return not guarantee.constant and claim_p_value(measurement, guarantee) is not None


def guessed(test: str, scores: Mapping[str, float], case: Case) -> dict[str, Tossed]:
    """Make the test of these guesses by its name. scores: one per owner."""
    if len(scores) < 2:
        return {}
    order = case.places_of(bounds.by_score(scores, case))
    rules = [(rule.each, rule.both) for rule in mechanism.rules(len(scores), case)]
    return {name_of(test): Guessed(order, rules)}
