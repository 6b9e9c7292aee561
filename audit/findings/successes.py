"""Findings from one try per secret that works or not: how many work, beside the twins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from audit.core.evidence import Successes
from audit.core.secret import OWN
from audit.findings import bounds, mechanism, reach
from audit.findings.case import Case
from audit.findings.guesses import guessed
from audit.results.measurement import Control, Measurement, Power
from audit.statistics.interval import Interval, IntervalKind
from audit.statistics.tossed import OfOwners, Tossed, least_of_counts, of_counts


def measurements(successes: Successes, case: Case) -> list[Measurement]:
    """Compute the share of planted secrets on which the attack succeeds, with twins as control."""
    planted, twins = case.sides(successes.won)
    k, k_twins = int(planted.sum()), int(twins.sum())
    won, drawn = case.by_owner(successes.won), case.by_owner(successes.won, case.drawn)
    measured = np.where(case.single, successes.won, np.nan)
    return [
        case.measurement(
            successes,
            successes.metric,
            _over_secrets(case.rate(k, len(planted))),
            unit=successes.unit,
            observation=_observation(k, len(planted), k_twins, len(twins), case),
            k=k,
            chance=successes.chance,
            control=Control.of(_over_secrets(case.rate(k_twins, len(twins))), k_twins),
            p_value=summed(drawn, case).p_value(case.heads) if drawn else None,
            least_p=least(drawn, case),
            sides=2,
            epsilon_lower=bounds.presence(won, case),
            claim_test=mechanism.presence(won, case),
            power=Power(
                smallest_rate=case.smallest_rate(len(planted)),
                largest_epsilon=bounds.largest(len(won), case.delta, claim_tests=case.claim_tests),
                n=len(planted),
                **reach.of_successes(drawn, case),
            ),
            cut=case.cut,
            outcomes=case.outcomes(measured) if len(planted) else None,
        )
    ]


def _observation(k: int, planted: int, k_twins: int, twins: int, case: Case) -> str:
    if any(secret.kind == OWN for secret in case.secrets):
        return f"{k} of {planted} users who stayed, {k_twins} of {twins} set aside."
    return f"{k} of {planted} planted secrets, {k_twins} of {twins} twins."


def tests(successes: Successes, case: Case) -> dict[str, Tossed]:
    """Make its tests, for any toss of the coins."""
    test, won = f"{case.attack} {successes.metric}", case.by_owner(successes.won)
    drawn = case.by_owner(successes.won, case.drawn)
    return {test: summed(drawn, case), **guessed(test, won, case)}


def summed(often: Mapping[str, float], case: Case) -> Tossed:
    """Make the two-sided test of how often owners who were trained on appear."""
    return OfOwners(of_counts(np.array(list(often.values()))), case.places_of(often))


def least(often: Mapping[str, float], case: Case) -> float:
    """Compute the smallest p-value of this test, whatever appears."""
    return least_of_counts(int(case.heads[case.places_of(often)].sum()), len(often))


def _over_secrets(interval: Interval) -> Interval:
    if interval.kind is not IntervalKind.CLOPPER_PEARSON:
        return interval
    return replace(interval, method="Clopper-Pearson over secrets, of these trained models")
