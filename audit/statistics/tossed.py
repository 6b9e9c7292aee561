"""Tests of coins by closed forms, for one toss or for many: functions of scores and coins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from audit.statistics import low_end
from audit.statistics.binomial import tail
from audit.statistics.top_test import places, top_weights

_NOISE = 1e-9  # of a sum of shares of a count
_COUNTED = 64  # scores of which all choices of heads are counted
_STEPS = 2e8  # additions by which the law of a sum is computed exactly

Coins = NDArray[np.bool_]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


class Tossed(ABC):
    """A test of the coins whose p-value has a closed form, the same for every toss."""

    @abstractmethod
    def p_values(self, coins: Coins) -> Floats:
        """Compute the p-value of each toss: coins (tosses, users), True = heads; (tosses,)."""

    def p_value(self, coins: Coins) -> float:
        """Compute the p-value of one toss, shape (users,)."""
        return float(self.p_values(coins[None])[0])

    def of_owners(self, coins: Coins, owners: Counts) -> Floats:
        """Compute the p-values where score i has the coin of user owners[i]. owners: (scores,)."""
        return self.p_values(of_users(coins, owners))


def of_users(coins: Coins, users: Counts) -> Coins:
    """Choose the coins of some users: (tosses, chosen). Fast in Fortran's order."""
    return coins.T[users].T


@dataclass(frozen=True, eq=False)
class OfOwners(Tossed):
    """A test of scores whose owners have the coins: it gets the coin of each score's owner.

    owners: (scores,), int, places among the users.
    """

    test: Tossed
    owners: Counts

    def p_values(self, coins: Coins) -> Floats:
        return self.test.of_owners(coins, self.owners)


@dataclass(frozen=True, eq=False)
class OfScores(Tossed):
    """A test of scores. scores: (users,), higher = leaks more; NaN: the user was not measured."""

    scores: Floats

    def p_values(self, coins: Coins) -> Floats:
        chosen = of_users(coins, np.flatnonzero(self._measured))
        return self._of_measured(chosen) if chosen.shape[1] else np.ones(len(coins))

    @cached_property
    def _measured(self) -> Coins:
        return ~np.isnan(self.scores)

    @cached_property
    def _own(self) -> Floats:
        return self.scores[self._measured]

    @abstractmethod
    def _of_measured(self, coins: Coins) -> Floats:
        """Compute the p-values from the coins of the measured users, at least one."""


class OfSums(OfScores):
    """A test of scores that needs only two sums over the heads: of one, and of a weight.

    Where users own several scores, each user's weights are added once, not in every toss.
    """

    def of_owners(self, coins: Coins, owners: Counts) -> Floats:
        measured, users = owners[self._measured], coins.shape[1]
        if not measured.size:
            return np.ones(len(coins))
        tossed = coins.astype(float)
        heads = tossed @ np.bincount(measured, minlength=users).astype(float)
        above: Floats = tossed @ np.bincount(measured, self._weights, users)
        return self._of_sums(heads.astype(np.int64), above)

    def _of_measured(self, coins: Coins) -> Floats:
        return self._of_sums(coins.sum(axis=1), coins.astype(float) @ self._weights)

    @property
    @abstractmethod
    def _weights(self) -> Floats:
        """The weights of the measured users."""

    @abstractmethod
    def _of_sums(self, heads: Counts, above: Floats) -> Floats:
        """Compute the p-values of each toss. heads: measured ones; above: sums of their weights."""


@dataclass(frozen=True, eq=False)
class Ranked(OfSums):
    """The rank test of Mann and Whitney, with ties.

    sides: 2 if lower scores of heads would be a leak, too. Exact up to 64 scores; of more by the
    normal law, with half a rank of continuity, and Cornish and Fisher's term where the tails are
    lighter than its.
    """

    sides: int = 1

    @cached_property
    def _weights(self) -> Floats:
        """Ranks less their mean."""
        return np.asarray(scipy.stats.rankdata(self._own)) - (self._own.size + 1) / 2

    @cached_property
    def _moments(self) -> tuple[Floats, Floats, Floats]:
        """Deviation, kurtosis less 3 if negative, and the least tail, by the number of heads."""
        every = self._own.size
        heads = np.arange(every + 1)
        squares, fourths = (float((self._weights**power).sum()) for power in (2, 4))
        variance = heads * (every - heads) / (every * max(1, every - 1)) * squares
        safe = np.where(variance > 0, variance, 1.0)
        lighter = np.minimum(0.0, _fourth_moment(heads, every, squares, fourths) / safe**2 - 3.0)
        return np.sqrt(variance), lighter, _of_one_order(heads, every)

    @cached_property
    def _exact(self) -> Floats:
        """P-values by the number of heads and twice the sum of their ranks."""
        every = self._own.size
        doubled = np.rint(2 * self._weights).astype(int) + every + 1
        return _tails_of_sums(tuple(sorted(doubled.tolist())), two_sided=self.sides == 2)

    def _of_sums(self, heads: Counts, above: Floats) -> Floats:
        every = self._own.size
        if every <= _COUNTED:
            exact: Floats = self._exact[heads, np.rint(2 * above).astype(int) + heads * (every + 1)]
            return exact
        deviation, lighter, least = (moment[heads] for moment in self._moments)
        size = np.abs(above) if self.sides == 2 else above
        possible = deviation > 0
        z = (size - 0.5) / np.where(possible, deviation, 1.0)
        z = z - lighter * (z**3 - 3 * z) / 24
        one = np.maximum(scipy.special.ndtr(-z), least)
        return np.where(possible, np.minimum(1.0, self.sides * one), 1.0)


@lru_cache(maxsize=16)  # scores without ties share one table
def _tails_of_sums(values: tuple[int, ...], two_sided: bool) -> Floats:
    """Compute how likely a sum as high is, for each number of values and each sum, (n + 1, S + 1).

    values: (n,), whole numbers >= 0, of which some are drawn without replacement. two_sided: as
    far from its mean.
    """
    n, total = len(values), sum(values)
    law = np.zeros((n + 1, total + 3))  # no sum is below 0 or above all of them
    law[:, 1:-1] = _laws_of_sums(values)
    high = law[:, ::-1].cumsum(axis=1)[:, ::-1]
    sums = np.broadcast_to(np.arange(total + 1), (n + 1, total + 1))
    counts = np.arange(n + 1)[:, None]
    if not two_sided:
        return np.asarray(np.minimum(1.0, high[counts, sums + 1]))
    mirrored = 2 * counts * total // max(1, n) - sums  # 2 × mean is whole: of ranks, n + 1 each
    upper = np.clip(np.maximum(sums, mirrored) + 1, 0, total + 2)
    lower = np.clip(np.minimum(sums, mirrored) + 1, 0, total + 2)
    far = high[counts, upper] + law.cumsum(axis=1)[counts, lower]
    return np.where(sums == mirrored, 1.0, np.minimum(1.0, far))


def _laws_of_sums(values: Sequence[int]) -> Floats:
    """Compute the law of the sum of so many values, drawn without replacement: (n + 1, S + 1)."""
    total = sum(values)
    ways = np.zeros((len(values) + 1, total + 1))
    ways[0, 0] = 1.0
    for value in values:
        ways[1:, value:] += ways[:-1, : total + 1 - value]
    return np.asarray(ways / ways.sum(axis=1, keepdims=True))


def _of_one_order(heads: Counts, every: int) -> Floats:
    """Compute the probability of one choice of heads, below which no tail is."""
    counts = (heads + 1.0, every - heads + 1.0, every + 1.0)
    inside, outside, whole = map(scipy.special.gammaln, counts)
    return np.asarray(np.exp(inside + outside - whole))


def _fourth_moment(heads: Counts, every: int, squares: float, fourths: float) -> Floats | float:
    """Compute the fourth moment of a sum of `heads` of `every` values, drawn without replacement.

    squares, fourths: sums of powers of the values, whose mean is 0. Three times the squared
    variance, as of the normal law, where there are fewer than four values.
    """
    if every < 4:
        return np.inf
    n, left = heads.astype(float), every - heads
    of_fourths = (every**2 + every - 6.0 * every * n + 6.0 * n**2) * fourths
    of_squares = 3.0 * (n - 1) * (left - 1) * squares**2
    ways = every * (every - 1.0) * (every - 2.0) * (every - 3.0)
    return np.asarray(n * left / ways * (of_fourths + of_squares))


@dataclass(frozen=True, eq=False)
class Top(OfSums):
    """The top test: heads among the highest scores, by the hypergeometric law.

    share: of the measured scores that are the top, chosen beforehand. Ties at the cut are counted
    in part, and the part is rounded down in every toss alike.
    """

    share: Fraction

    @cached_property
    def _weights(self) -> Floats:
        return top_weights(self._own, places(self._own.size, 0, self.share))

    def _of_sums(self, heads: Counts, above: Floats) -> Floats:
        top, every = round(float(self._weights.sum())), self._own.size

        def p_values(members: Counts, counts: Counts) -> Floats:
            return np.asarray(scipy.stats.hypergeom.sf(counts - 1, every, members, top))

        return _each(p_values, heads, np.floor(above + _NOISE).astype(int))


@dataclass(frozen=True, eq=False)
class LowEnd(OfScores):
    """The exact test of the low end: heads before tails number `passing` + 1.

    lots: (users,), by which ties are ordered.
    """

    lots: Floats
    passing: int = 0

    @cached_property
    def _order(self) -> Counts:
        return np.lexsort((self.lots[self._measured], -self._own))

    def _of_measured(self, coins: Coins) -> Floats:
        every = coins.shape[1]
        heads = coins.sum(axis=1)
        tails = np.cumsum(~of_users(coins, self._order), axis=1, dtype=np.int32)
        above = (tails <= self.passing).sum(axis=1) - self.passing

        def p_values(members: Counts, counts: Counts) -> Floats:
            return low_end.tails(counts, members, every, self.passing)

        return _each(p_values, heads, above)


@dataclass(frozen=True, eq=False)
class Summed(OfSums):
    """The two-sided test of a sum over heads, given their number: twice the smaller tail, exact.

    Every choice of as many heads is equally likely. scores: (users,), whole numbers >= 0.
    """

    @cached_property
    def _weights(self) -> Floats:
        return self._own

    @cached_property
    def _counted(self) -> Counts:
        """The scores above 0, the only ones that a sum depends on."""
        return self._own[self._own > 0].astype(np.int64)

    @cached_property
    def _tails(self) -> tuple[Floats, Floats]:
        """P[sum >= s] and P[sum <= s] of so many of the scores above 0: (scores + 1, sums + 1)."""
        law = _laws_of_sums(self._counted.tolist())
        return law[:, ::-1].cumsum(axis=1)[:, ::-1], law.cumsum(axis=1)

    def _of_sums(self, heads: Counts, above: Floats) -> Floats:
        every, some = self._own.size, self._counted.size

        def p_values(members: Counts, sums: Counts) -> Floats:
            kinds, place = np.unique(members, return_inverse=True)  # slow where users are many
            ways = scipy.stats.hypergeom.pmf(np.arange(some + 1)[:, None], every, some, kinds)
            high, low = ((ways[:, place] * tail[:, sums]).sum(axis=0) for tail in self._tails)
            least = np.maximum(1e-300, 2.0 * _of_one_order(members, every))
            return np.asarray(np.maximum(least, 2.0 * np.minimum(high, low)))

        return _each(p_values, heads, np.rint(above).astype(np.int64))


def of_counts(counts: Floats) -> OfSums:
    """Make the two-sided test of how often each user appears, a rank test where counts are many.

    counts: (users,), whole numbers >= 0.
    """
    steps = np.count_nonzero(counts) ** 2 * counts.sum()
    if steps <= _STEPS:
        return Summed(counts)
    few = counts.size <= _COUNTED
    return Summed(2 * scipy.stats.rankdata(counts)) if few else Ranked(counts, sides=2)


def least_of_counts(heads: int, users: int) -> float:
    """Compute the smallest p-value of counts: twice the probability of one choice of heads."""
    return min(1.0, 2.0 * float(_of_one_order(np.array(heads), users)))


@dataclass(frozen=True, eq=False)
class Guessed(Tossed):
    """The test of guesses: the first users of an order are guessed heads, the last ones tails.

    order: (guessable,), int, users by falling score, ties by lots. rules: pairs of how many are
    guessed on each side, and whether on both; the best of k rules counts k times its p-value.
    """

    order: Counts
    rules: Sequence[tuple[int, bool]]

    def p_values(self, coins: Coins) -> Floats:
        ordered = of_users(coins, self.order)
        least = np.ones(len(coins))
        for each, both in self.rules:
            right = ordered[:, :each].sum(axis=1)
            if both:
                right = right + (~ordered[:, -each:]).sum(axis=1)
            least = np.minimum(least, _fair_tails(2 * each if both else each)[right])
        return np.minimum(1.0, len(self.rules) * least)


@lru_cache(maxsize=256)
def _fair_tails(guesses: int) -> Floats:
    """Compute P[Bin(guesses, 1/2) >= k] for every k from 0 to the number of guesses."""
    return np.array([tail(count, guesses, 0.5) for count in range(guesses + 1)])


def _each(p_values: Callable[[Counts, Counts], Floats], heads: Counts, counts: Counts) -> Floats:
    """Compute p-values that depend on two counts only, once for each pair that occurs."""
    width = int(counts.max(initial=0)) + 1
    pairs, place = np.unique(heads * width + counts, return_inverse=True)
    return np.minimum(1.0, p_values(*np.divmod(pairs, width)))[place]
