"""Empirical ε of the planted user with all copies, and what it says about a claim."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from audit.findings.finding import Case
from audit.results.schema import EpsilonLower
from audit.statistics import exposure, one_run


def presence(scores: Mapping[str, float], case: Case) -> EpsilonLower | None:
    """One-run bound from a score of each owner, add-or-remove; None for fewer than two owners.

    The r guesses are fixed beforehand: "in" for the third of the owners with the highest scores,
    "out" for the third with the lowest, ties by lot. As many of one kind as of the other, so that
    coins which fell unevenly are not mistaken for a leak.
    """
    owners = list(scores)
    m, third = len(owners), guesses(len(owners)) // 2
    if m < 2:
        return None
    lot = case.stream("lots").permutation(m)
    ranked = sorted(range(m), key=lambda j: (-scores[owners[j]], lot[j]))
    right = sum(case.coins.present[owners[j]] for j in ranked[:third])
    right += sum(not case.coins.present[owners[j]] for j in ranked[m - third :])
    return _one_run(m, 2 * third, right, case, "add_or_remove")


def guesses(coins: int) -> int:
    """How many guesses are made over so many coins: two thirds of them, an even number."""
    return 2 * max(1, coins // 3)


def largest(coins: int, delta: float, named: int | None = None) -> float | None:
    """The ε (nats) that `presence` gives at best: every guess right, or, where at most `named`
    owners can stand out at all, no more "in" guesses right than these."""
    if coins < 2:
        return None
    r = guesses(coins)
    right = r if named is None else r - max(0, r // 2 - named)
    return one_run.epsilon_lower(coins, r, right, delta)


def which_value(right: int, owners: int, case: Case) -> EpsilonLower | None:
    """One-run bound from the second coin, replace: which of two values each present owner has."""
    return _one_run(owners, owners, right, case, "replace") if owners else None


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
    """Rank bound, add-or-remove: ranks (n,) of values drawn i.i.d., ties against them."""
    if not len(ranks):
        return None
    return EpsilonLower(
        value=exposure.epsilon_from_ranks(space, ranks, case.delta),
        method="rank",
        hypothesis="none",
        unit=case.unit,
        relation="add_or_remove",
        delta=case.delta,
        rank=float(sorted(ranks)[(len(ranks) - 1) // 2]),
        space=space,
        n=len(ranks),
    )


def claim_p_value(bound: EpsilonLower, epsilon: float, delta: float) -> float:
    """P-value of the claim (ε, δ), in the unit and relation of the bound."""
    if bound.method == "one_run":
        assert bound.m is not None and bound.r is not None and bound.v is not None
        return one_run.p_value(epsilon, bound.m, bound.r, bound.v, delta)
    space, rank, times = _rank(bound)
    return min(1.0, times * exposure.rank_p_value(epsilon, space, rank, delta))


def least_claim_p_value(bound: EpsilonLower, epsilon: float, delta: float) -> float:
    """The p-value of the claim had all that the bound rests on gone against it; 0 where the bound
    does not say what that is."""
    if bound.r is None and bound.rank is None:
        return 0.0
    best = {"v": bound.r} if bound.method == "one_run" else {"rank": 1.0}
    return claim_p_value(bound.model_copy(update=best), epsilon, delta)


def at_delta(bound: EpsilonLower, delta: float) -> float:
    """The ε (nats) that the same evidence refutes at another δ, at the same confidence."""
    if bound.method == "one_run":
        assert bound.m is not None and bound.r is not None and bound.v is not None
        return one_run.epsilon_lower(bound.m, bound.r, bound.v, delta, bound.confidence)
    space, rank, times = _rank(bound)
    return exposure.epsilon_from_rank(space, rank, delta, 1 - (1 - bound.confidence) / times)


def _rank(bound: EpsilonLower) -> tuple[float, float, int]:
    """(space, rank, 2 where the rank is a median of several: see `epsilon_from_ranks`)."""
    assert bound.space is not None and bound.rank is not None and bound.n is not None
    return bound.space, bound.rank, 1 if bound.n == 1 else 2
