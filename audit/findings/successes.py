"""Findings from one try per secret that works or not: how many work, beside the twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.core.evidence import Successes
from audit.findings import bounds, mechanism
from audit.findings.case import Case
from audit.results.measurement import Control, Measurement, Power
from audit.statistics import coin_test
from audit.statistics.interval import Interval, IntervalKind


def measurements(successes: Successes, case: Case) -> list[Measurement]:
    """Computes the share of planted secrets on which the attack succeeds, with twins as control."""
    planted, twins = case.sides(successes.won)
    k, k_twins = int(planted.sum()), int(twins.sum())
    won = case.by_owner(successes.won)
    coins = [case.coins.present[owner] for owner in won]
    m = len(won)
    measured = np.where(case.single, successes.won, np.nan)
    return [
        case.measurement(
            successes,
            successes.metric,
            _over_secrets(case.rate(k, len(planted))),
            unit=successes.unit,
            observation=f"{k} of {len(planted)} planted secrets, {k_twins} of {len(twins)} twins.",
            k=k,
            chance=successes.chance,
            control=Control.of(_over_secrets(case.rate(k_twins, len(twins))), k_twins),
            p_value=coin_test.p_value([int(w) for w in won.values()], coins, case.stream("coins"))
            if won
            else None,
            least_p=min(1.0, 2.0 * 0.5**m),
            sides=2,
            epsilon_lower=bounds.presence(won, case),
            claim_test=mechanism.presence(won, case),
            power=Power(
                smallest_rate=case.smallest_rate(len(planted)),
                largest_epsilon=bounds.largest(m, case.delta, claim_tests=case.claim_tests),
                n=len(planted),
            ),
            cut=case.cut,
            outcomes=case.outcomes(measured) if len(planted) else None,
        )
    ]


def _over_secrets(interval: Interval) -> Interval:
    if interval.kind is not IntervalKind.CLOPPER_PEARSON:
        return interval
    return replace(interval, method="Clopper-Pearson over secrets, of these trained models")
