"""Findings from the exact probability that a generation is a secret."""

from __future__ import annotations

import numpy as np

from audit.core.evidence import Likelihoods
from audit.findings.case import Case, of_kind
from audit.results.measurement import Control, Measurement, Power
from audit.results.words import percent
from audit.statistics import discoverable, rank_test
from audit.statistics.bounded_mean import mean_interval

DRAWS = 1000  # n of (n, p)-discoverable extraction


def measurements(likelihoods: Likelihoods, case: Case) -> list[Measurement]:
    """Computes the mean probability of a planted secret, in one and in 1,000 generations."""
    read = ~np.isnan(likelihoods.log_probs)
    # unread secrets are 0 and left out below; rounding may exceed 1 slightly
    p = np.where(read, np.minimum(np.exp(likelihoods.log_probs), 1.0), 0.0)
    planted, twins = case.planted & read, case.twins & read
    p_value, least = compared(likelihoods.log_probs, case)
    made = []
    for metric, values, chance, unit in (
        ("probability", p, case.chance, "probability of a planted secret per generation"),
        (
            "discoverable",
            discoverable.discovered(p, DRAWS),
            None if case.chance is None else float(discoverable.discovered(case.chance, DRAWS)),
            f"share of planted secrets expected in {DRAWS:,} generations",
        ),
    ):
        interval = mean_interval(values[planted])
        beside = Control.of(mean_interval(values[twins]))
        against = f", twins {percent(beside.value)}" if beside else ""
        made.append(
            case.measurement(
                likelihoods,
                of_kind(likelihoods.kind, metric),
                interval,
                unit=unit,
                observation=""
                if interval.value is None
                else f"{metric}: {percent(interval.value)}{against}.",
                chance=chance,
                control=beside,
                p_value=p_value,
                least_p=least,
                sides=2,
                test=f"{case.attack} {of_kind(likelihoods.kind, 'likelihoods')}",
                power=Power(n=int(planted.sum())),
            )
        )
    return made


def compared(scores: np.ndarray, case: Case) -> tuple[float | None, float]:
    """Computes the two-sided rank test of planted secrets against twins.

    Returns its p-value, None where a side is empty, and the smallest p-value possible with this
    many, had the coins fallen evenly. Secrets that score lower than their twins, as behind a block
    list, depend on the data as well.
    """
    planted, twins = case.sides(scores)
    n = len(planted) + len(twins)
    least = rank_test.smallest(n // 2, n - n // 2, two_sided=True)
    if not len(planted) or not len(twins):
        return None, least
    return rank_test.p_value(planted, twins, case.stream("rank test"), two_sided=True), least
