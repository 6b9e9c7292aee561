"""Lower bounds on ε per planted user (all copies of the secret), and p-values of claimed ε."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from audit.core.terms import Relation
from audit.findings.finding import Case
from audit.results.schema import EpsilonLower
from audit.statistics import exposure, one_run


def presence(scores: Mapping[str, float], case: Case) -> EpsilonLower | None:
    """Computes the one-run bound (add-or-remove) from one score per owner; None for fewer than two.

    The r guesses are fixed beforehand: "in" for the third of the owners with the highest scores,
    "out" for the third with the lowest, ties broken at random. There are equally many of both, so
    that coins which fell unevenly are not mistaken for a leak.
    """
    owners = list(scores)
    m, third = len(owners), guesses(len(owners)) // 2
    if m < 2:
        return None
    lot = case.stream("lots").permutation(m)
    ranked = sorted(range(m), key=lambda j: (-scores[owners[j]], lot[j]))
    right = sum(case.coins.present[owners[j]] for j in ranked[:third])
    right += sum(not case.coins.present[owners[j]] for j in ranked[m - third :])
    return _one_run(m, 2 * third, right, case, Relation.ADD_OR_REMOVE)


def guesses(coins: int) -> int:
    """Computes how many guesses are made: two thirds of the coins, an even number."""
    return 2 * max(1, coins // 3)


def largest(coins: int, delta: float, named: int | None = None) -> float | None:
    """Computes the largest ε (nats) that `presence` can return: with every guess right, or, if at
    most `named` owners can stand out, with only so many "in" guesses right."""
    if coins < 2:
        return None
    r = guesses(coins)
    right = r if named is None else r - max(0, r // 2 - named)
    return one_run.epsilon_lower(coins, r, right, delta)


def which_value(right: int, owners: int, case: Case) -> EpsilonLower | None:
    """Computes the one-run bound (replace) from the second coin: which of two values is planted."""
    return _one_run(owners, owners, right, case, Relation.REPLACE) if owners else None


def _one_run(m: int, r: int, v: int, case: Case, relation: str) -> EpsilonLower:
    return EpsilonLower(
        value=one_run.epsilon_lower(m, r, v, case.delta),
        method="one_run",
        hypothesis="none",
        unit=case.unit,
        relation=relation,
        delta=case.delta,
        m=m,
        r=r,
        v=v,
    )


def from_ranks(space: float, ranks: np.ndarray, case: Case) -> EpsilonLower | None:
    """Computes the rank bound (add-or-remove). ranks: (n,), of i.i.d. values, ties against them."""
    if not len(ranks):
        return None
    return EpsilonLower(
        value=exposure.epsilon_from_ranks(space, ranks, case.delta),
        method="rank",
        hypothesis="none",
        unit=case.unit,
        relation=Relation.ADD_OR_REMOVE,
        delta=case.delta,
        rank=float(sorted(ranks)[(len(ranks) - 1) // 2]),
        space=space,
        n=len(ranks),
    )


def claim_p_value(bound: EpsilonLower, epsilon: float, delta: float) -> float:
    """Computes the p-value of the claim (ε, δ), in the unit and relation of the bound."""
    if bound.method == "one_run":
        assert bound.m is not None and bound.r is not None and bound.v is not None
        return one_run.p_value(epsilon, bound.m, bound.r, bound.v, delta)
    space, rank, times = _rank(bound)
    return min(1.0, times * exposure.rank_p_value(epsilon, space, rank, delta))


def least_claim_p_value(bound: EpsilonLower, epsilon: float, delta: float) -> float:
    """Computes the claim's p-value had every guess been right, or every rank 1; 0 if unknown."""
    if bound.r is None and bound.rank is None:
        return 0.0
    best = {"v": bound.r} if bound.method == "one_run" else {"rank": 1.0}
    return claim_p_value(bound.model_copy(update=best), epsilon, delta)


def at_delta(bound: EpsilonLower, delta: float) -> float:
    """Computes the ε (nats) that the same evidence refutes at another δ, at the same confidence."""
    if bound.method == "one_run":
        assert bound.m is not None and bound.r is not None and bound.v is not None
        return one_run.epsilon_lower(bound.m, bound.r, bound.v, delta, bound.confidence)
    space, rank, times = _rank(bound)
    return exposure.epsilon_from_rank(space, rank, delta, 1 - (1 - bound.confidence) / times)


def _rank(bound: EpsilonLower) -> tuple[float, float, int]:
    """Reads (space, rank, factor); factor 2 for a median of several ranks: `epsilon_from_ranks`."""
    assert bound.space is not None and bound.rank is not None and bound.n is not None
    return bound.space, bound.rank, 1 if bound.n == 1 else 2
