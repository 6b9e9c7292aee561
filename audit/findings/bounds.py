"""Lower bounds on ε per planted user (all copies of the secret), and p-values of claimed ε."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from audit.core.terms import Relation
from audit.findings.case import Case
from audit.results.joined import LEVEL
from audit.results.numbers import rounded_down, rounded_up
from audit.results.schema import EpsilonLower
from audit.statistics import exposure, nested_guesses

_ERROR = 1.0 - 0.95  # of one bound; a little more than 0.05, as 1.0 less its confidence is
Counts = tuple[tuple[int, int], ...]  # (r, v) of each rule: guesses, and right ones among them


@dataclass(frozen=True)
class Guesses:
    """A rule of guessing, fixed beforehand: the owners with the highest scores are "in".

    each: how many are guessed on each side. both: whether as many of the lowest are guessed "out",
    so that coins which fell unevenly are not mistaken for a leak; else a minority that leaks
    completely is sought among the highest alone.
    """

    each: int
    both: bool

    @property
    def count(self) -> int:
        """The number r of guesses."""
        return 2 * self.each if self.both else self.each


def rules(coins: int) -> list[Guesses]:
    """List the rules of the one-run bound, each among the guesses of the next: a function of m.

    Thirds find a leak of everybody, twelfths one of a part, the highest alone one of a few.
    """
    highest = [Guesses(coins // part, both=False) for part in (48, 24, 12)]
    ends = [Guesses(coins // part, both=True) for part in (12, 8, 5)]
    found = [*highest, *ends, Guesses(max(1, coins // 3), both=True)]
    return list(dict.fromkeys(rule for rule in found if rule.each))


def presence(scores: Mapping[str, float], case: Case) -> EpsilonLower | None:
    """Compute the one-run bound (add-or-remove) from one score per owner; None for fewer than two.

    Ties are broken at random, by lots that know no coin.
    """
    m = len(scores)
    if m < 2:
        return None
    present = ranked(scores, case)
    guesses = tuple((rule.count, right(rule, present)) for rule in rules(m))
    return _one_run(m, guesses, case, Relation.ADD_OR_REMOVE)


def by_score(scores: Mapping[str, float], case: Case) -> list[str]:
    """Order the owners by falling score, ties by lots that know no coin."""
    owners = list(scores)
    lot = case.stream("lots").permutation(len(owners))
    return [
        owners[j] for j in sorted(range(len(owners)), key=lambda j: (-scores[owners[j]], lot[j]))
    ]


def ranked(scores: Mapping[str, float], case: Case) -> np.ndarray:
    """Return by falling score whether each owner was trained on: (m,), bool."""
    return np.array([case.coins.present[owner] for owner in by_score(scores, case)], dtype=bool)


def right(rule: Guesses, present: np.ndarray) -> int:
    """Count right guesses. present: (m,), bool, by falling score."""
    inside = int(present[: rule.each].sum())
    return inside + int((~present[-rule.each :]).sum()) if rule.both else inside


def largest(
    coins: int, delta: float, named: int | None = None, claim_tests: int = 1
) -> float | None:
    """Compute the largest claim of ε (nats) that `presence` could refute.

    With every guess right; if at most `named` owners can stand out, with only so many "in" guesses
    right. claim_tests: how many tests of the claim the level is shared out over.
    """
    if coins < 2:
        return None
    best = tuple(
        (rule.count, rule.count - (0 if named is None else max(0, rule.each - named)))
        for rule in rules(coins)
    )
    return _epsilon(coins, best, delta, LEVEL / claim_tests)


@lru_cache(maxsize=4096)
def refutable(epsilon: float, delta: float, claim_tests: int) -> bool:
    """Return whether any number of coins could refute a claim of ε (nats) at this δ.

    The term 2mδ of the one-run test grows with the coins, so more of them do not always help. Over
    numbers of coins a tenth apart, up to 131,072, and for a claim a tenth smaller.
    """
    coins = sorted({round(2 * 1.1**k) for k in range(117)})
    every = ((m, [(rule.count, rule.count) for rule in rules(m)]) for m in coins)
    level = LEVEL / claim_tests
    return any(nested_guesses.p_value(epsilon / 1.1, m, all_, delta) < level for m, all_ in every)


def by_guesses(bound: EpsilonLower | None) -> bool:
    """Return whether a bound is by guesses of who was trained on."""
    if bound is None:
        return False
    return bound.method == "one_run" and bound.relation == Relation.ADD_OR_REMOVE


def which_value(right: int, owners: int, case: Case) -> EpsilonLower | None:
    """Compute the one-run bound (replace) from the second coin: which of two values is planted."""
    return _one_run(owners, ((owners, right),), case, Relation.REPLACE) if owners else None


def _one_run(m: int, guesses: Counts, case: Case, relation: str) -> EpsilonLower:
    delta = rounded_up(case.delta)
    return EpsilonLower(
        value=_epsilon(m, guesses, delta, _ERROR),
        method="one_run",
        hypothesis="none",
        unit=case.unit,
        relation=relation,
        delta=delta,
        m=m,
        guesses=list(guesses),
    )


@lru_cache(maxsize=4096)  # all measures of a release share their coins, and many their counts
def _epsilon(m: int, guesses: Counts, delta: float, error: float) -> float:
    """Compute the bound of all rules together: sup{ε : p < error}."""
    return nested_guesses.epsilon_lower(m, guesses, delta, error)


def from_ranks(space: float, ranks: np.ndarray, case: Case) -> EpsilonLower | None:
    """Compute the rank bound (add-or-remove). ranks: (n,), of i.i.d. values, ties against them.

    As of its evidence as it is stored: a rank rounded up, of a space rounded down.
    """
    n, delta, space = len(ranks), rounded_up(case.delta), rounded_down(space)
    if not n:
        return None
    rank = min(space, rounded_up(float(sorted(ranks)[(n - 1) // 2])))
    return EpsilonLower(
        value=_by_rank(space, rank, n, delta, _ERROR),
        method="rank",
        hypothesis="none",
        unit=case.unit,
        relation=Relation.ADD_OR_REMOVE,
        delta=delta,
        rank=rank,
        space=space,
        n=n,
    )


def _by_rank(space: float, rank: float, n: int, delta: float, error: float) -> float:
    """Compute the ε that a lower median of n ranks refutes: `exposure.epsilon_from_ranks`."""
    return exposure.epsilon_from_rank(space, rank, delta, 1.0 - error / _times(n))


def _times(n: int) -> int:
    """Bound how many times as often as one rank the median of n ranks errs."""
    return 1 if n == 1 else 2


def largest_by_rank(space: float, n: int, delta: float, claim_tests: int = 1) -> float | None:
    """Compute the largest claim of ε (nats) that n ranks of 1 would refute; None without any."""
    if not n:
        return None
    return exposure.epsilon_from_ranks(space, np.ones(n), delta, 1.0 - LEVEL / claim_tests)


def claim_p_value(bound: EpsilonLower, epsilon: float, delta: float) -> float:
    """Compute the p-value of the claim (ε, δ), in the unit and relation of the bound."""
    if bound.method == "one_run":
        m, guesses = _coins(bound)
        return nested_guesses.p_value(epsilon, m, guesses, delta)
    space, rank, n = _rank(bound)
    return min(1.0, _times(n) * exposure.rank_p_value(epsilon, space, rank, delta))


def most_at(bound: EpsilonLower, delta: float, level: float) -> float:
    """Compute the largest ε (nats) refuted at this level had every guess been right, or every rank
    been 1."""
    if bound.method == "one_run":
        m, guesses = _coins(bound)
        return _epsilon(m, tuple((r, r) for r, _ in guesses), delta, level)
    space, _, n = _rank(bound)
    return _by_rank(space, 1.0, n, delta, level)


def at_delta(bound: EpsilonLower, delta: float) -> float:
    """Compute the ε (nats) that the same evidence refutes at another δ, at the same confidence."""
    error = 1.0 - bound.confidence
    if bound.method == "one_run":
        return _epsilon(*_coins(bound), delta, error)
    return _by_rank(*_rank(bound), delta, error)


def _coins(bound: EpsilonLower) -> tuple[int, Counts]:
    assert bound.m is not None and bound.guesses is not None
    return bound.m, tuple(bound.guesses)


def _rank(bound: EpsilonLower) -> tuple[float, float, int]:
    assert bound.space is not None and bound.rank is not None and bound.n is not None
    return bound.space, bound.rank, bound.n
