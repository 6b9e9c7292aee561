"""DP-SGD's ε for a phrase that occurs in several records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audit.accounting.composition import epsilon
from audit.accounting.gaussians import Gaussians
from audit.accounting.mechanism import Mechanism
from audit.accounting.replacement import epsilon_under_replace
from audit.core.terms import Relation

_TOLERANCE = 1e-3  # of ε: phrases are many, and a mixture's grid is slow


def phrase_epsilon(
    noise_multiplier: float,
    steps: int,
    sampling_probability: float,
    delta: float,
    occurrences: int,
    relation: str = Relation.ADD_OR_REMOVE,
) -> float:
    """Compute an upper bound on ε (nats) of DP-SGD at δ for all records with a phrase together.

    occurrences: how many records contain it; Bin(occurrences, q) of them are in a step's sum, which
    is a mixture of Gaussians (dp-accounting; Choquette-Choo et al. 2023, arXiv 2310.15526).
    relation: "add_or_remove" all of them, or "replace" all of them by as many different records, to
    compare with SeqPATE's; see `epsilon_under_replace`. Not occurrences times a record's ε: that
    would need another δ. 0 for a phrase that does not occur. At most 0.1 % above the limit where
    the PLD resolves δ. Raises ValueError for another relation.
    """
    term = Gaussians(noise_multiplier, steps, sampling_probability, occurrences)
    mechanism = Mechanism((term,), Relation.ADD_OR_REMOVE)
    if relation == Relation.REPLACE:
        return epsilon_under_replace(mechanism, delta, _TOLERANCE)
    if relation != Relation.ADD_OR_REMOVE:
        raise ValueError(f"relation must be add_or_remove or replace; got {relation!r}")
    return epsilon(mechanism, delta, _TOLERANCE)


@dataclass(frozen=True, slots=True)
class EpsilonDistribution:
    """ε (nats, one unit, relation and δ) of n phrases: mean, range, and the share below the mean.

    The mean is inf where some phrase has no finite ε.
    """

    n: int
    mean: float
    minimum: float
    maximum: float
    below_mean: float


def distribution(epsilons: Sequence[float]) -> EpsilonDistribution:
    """Summarise one ε per phrase. Raises ValueError for no phrase."""
    if not epsilons:
        raise ValueError("a distribution needs at least one phrase")
    n, mean = len(epsilons), math.fsum(epsilons) / len(epsilons)
    below = sum(value < mean for value in epsilons) / n
    return EpsilonDistribution(n, mean, min(epsilons), max(epsilons), below)


def phrase_distribution(
    noise_multiplier: float,
    steps: int,
    sampling_probability: float,
    delta: float,
    occurrences: Sequence[int],
    relation: str = Relation.ADD_OR_REMOVE,
) -> EpsilonDistribution:
    """Summarise `phrase_epsilon` over phrases: occurrences has one entry per phrase."""
    by_count = {
        n: phrase_epsilon(noise_multiplier, steps, sampling_probability, delta, n, relation)
        for n in sorted(set(occurrences))
    }
    return distribution([by_count[n] for n in occurrences])
