"""Bets on coins: exact means over all coins, wherever they stop; closed means by brute force."""

from __future__ import annotations

import math
from itertools import chain, combinations, product

import numpy as np
import pytest

from audit.statistics.coin_bets import MOST, closed, wealth

SCORES = np.array([0.3, 0.1, 0.9, 0.9, 0.2, 0.5, 0.7, 0.4])  # with a tie
LOTS = np.array([0, 1, 0, 2, 1, 0, 2, 1])
COINS = [np.array(coins) for coins in product([False, True], repeat=len(SCORES))]


def after(lot: int, coins: np.ndarray, epsilon: float = 0.0) -> float:
    """The wealth after a lot."""
    seen = lot >= LOTS
    return wealth(SCORES[seen], coins[seen], LOTS[seen], epsilon)


def expected(odds: float, epsilon: float) -> float:
    """The mean wealth at the end where high scores have these odds of heads, low ones 1/odds."""
    share = np.where(np.median(SCORES) <= SCORES, odds, 1 / odds)
    heads = share / (1 + share)
    each = (np.where(coins, heads, 1 - heads).prod() * after(2, coins, epsilon) for coins in COINS)
    return float(sum(each))


@pytest.mark.parametrize("enough", [1.0, 1.5, 3.0, math.inf])
def test_fair_coins_win_nothing_wherever_bets_stop(enough: float) -> None:
    stops = []
    for coins in COINS:
        path = [after(lot, coins) for lot in range(3)]
        stops.append(next((one for one in path if one >= enough), path[-1]))
    assert np.mean(stops) == pytest.approx(1.0)


def test_pure_epsilon_wins_nothing_at_its_odds_and_something_beyond() -> None:
    for epsilon in (0.7, 1.2):
        assert expected(math.exp(epsilon), epsilon) <= 1 + 1e-9
        assert expected(math.exp(-epsilon), epsilon) <= 1 + 1e-9
        assert expected(math.exp(2.5), epsilon) > 1.1
        assert max(after(2, coins, epsilon) for coins in COINS) < max(after(2, c) for c in COINS)
    assert all(after(2, coins, 8.0) == pytest.approx(1.0) for coins in COINS[::16])


def test_wealth_follows_ranks_and_has_a_limit() -> None:
    coins = SCORES > 0.45
    assert after(2, coins) > 7 and after(2, ~coins) < 0.2
    assert wealth(np.exp(SCORES), coins, LOTS) == pytest.approx(after(2, coins))
    assert wealth(np.ones(8), coins, LOTS) == 1.0  # ties bet nothing
    many = np.arange(400.0)
    assert wealth(many, many >= 200, np.zeros(400, dtype=int)) == pytest.approx(MOST)


def test_earlier_lots_are_not_bet_on_again() -> None:
    """Over the coins of a new lot, the wealth is on average what it was before."""
    for coins in COINS[::37]:
        again = [coins.copy() for _ in range(4)]
        for one, new in zip(again, product([False, True], repeat=2), strict=True):
            one[LOTS == 2] = new
        assert np.mean([after(2, one) for one in again]) == pytest.approx(after(1, coins))


def test_closed_means_are_the_least_of_all_sets() -> None:
    draws = np.random.default_rng(0)
    for size in (1, 2, 5):
        wealths = draws.exponential(size=size) ** 3
        sets = list(chain.from_iterable(combinations(range(size), k) for k in range(1, size + 1)))
        least = [min(np.mean(wealths[[*s]]) for s in sets if t in s) for t in range(size)]
        assert closed(wealths) == pytest.approx(least)
    assert closed(np.array([])).shape == (0,)
    assert closed(np.array([40.0, 40.0, 40.0])) == pytest.approx(40.0)  # agreeing costs nothing
