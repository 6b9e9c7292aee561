"""Findings from the exact probability that a generation is a secret."""

from __future__ import annotations

import numpy as np

from audit.core.evidence import Likelihoods
from audit.findings import reach
from audit.findings.case import Case, of_kind
from audit.results.measurement import Control, Measurement, Power
from audit.results.words import percent
from audit.statistics import discoverable
from audit.statistics.bounded_mean import mean_interval
from audit.statistics.tossed import Ranked, Tossed

DRAWS = 1000  # n of (n, p)-discoverable extraction


def measurements(likelihoods: Likelihoods, case: Case) -> list[Measurement]:
    """Compute the mean probability of a planted secret, in one and in 1,000 generations."""
    read = ~np.isnan(likelihoods.log_probs)
    # unread secrets are 0 and left out below; rounding may exceed 1 slightly
    p = np.where(read, np.minimum(np.exp(likelihoods.log_probs), 1.0), 0.0)
    planted, twins = case.planted & read, case.twins & read
    p_value, least = compared(likelihoods.log_probs, case)
    own, others = case.sides(likelihoods.log_probs)
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
                test=_test(likelihoods, case),
                power=Power(
                    n=int(planted.sum()),
                    **reach.of_scores(len(own), len(others), top=False, named=False, case=case),
                ),
            )
        )
    return made


def tests(likelihoods: Likelihoods, case: Case) -> dict[str, Tossed]:
    """Make its test, for any toss of the coins."""
    return {_test(likelihoods, case): ranked(likelihoods.log_probs, case)}


def _test(likelihoods: Likelihoods, case: Case) -> str:
    return f"{case.attack} {of_kind(likelihoods.kind, 'likelihoods')}"


def ranked(scores: np.ndarray, case: Case) -> Tossed:
    """Make the two-sided rank test of planted secrets against twins.

    Secrets that score lower than their twins, as behind a block list, depend on the data as well.
    """
    return case.of_coins(lambda own: Ranked(own, sides=2), scores)


def compared(scores: np.ndarray, case: Case) -> tuple[float | None, float]:
    """Compute the p-value of the rank test and the smallest possible with this many.

    None where a side is empty. The smallest: had the coins fallen evenly; 1 where all are equal.
    """
    planted, twins = case.sides(scores)
    least = 1.0 if are_equal(planted, twins) else _least(len(planted) + len(twins))
    if not len(planted) or not len(twins):
        return None, least
    return ranked(scores, case).p_value(case.heads), least


def are_equal(planted: np.ndarray, twins: np.ndarray) -> bool:
    """Return whether no two scores differ, so that no test can tell them apart."""
    return len(np.unique(np.concatenate([planted, twins]))) < 2


def _least(n: int) -> float:
    return Ranked(np.arange(float(n)), sides=2).p_value(np.arange(n) < n // 2)
