"""The coin test against every outcome of the coins, and its level under dependent weights."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from audit.statistics import coin_test

STREAM = np.random.default_rng(0)
units = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=9)


@given(units)
def test_it_counts_every_outcome_of_the_coins(units):
    weights, coins = zip(*units, strict=True)
    observed = np.dot(weights, coins)
    outcomes = itertools.product([0, 1], repeat=len(weights))
    as_large = [np.dot(weights, outcome) >= observed for outcome in outcomes]
    found = coin_test.p_value(weights, coins, STREAM)
    assert found == pytest.approx(np.mean(as_large), rel=1e-12)
    assert found >= coin_test.smallest(weights) * (1 - 1e-12)
    if all(coins):
        assert found == pytest.approx(coin_test.smallest(weights))


def test_equal_weights_are_the_binomial_tail():
    coins = [True] * 40 + [False] * 20
    for weight in (1, 7):
        found = coin_test.p_value([weight] * 60, coins, STREAM)
        assert found == pytest.approx(binom.sf(39, 60, 0.5), rel=1e-9)


def test_one_favourite_owner_is_one_coin():
    assert coin_test.p_value([1000, 0, 0], [True, False, True], STREAM) == 0.5
    assert coin_test.smallest([1000, 0, 0]) == 0.5
    assert coin_test.p_value([0, 0], [True, True], STREAM) == 1.0
    assert coin_test.smallest([0, 0]) == 1.0


def test_the_level_holds_for_weights_that_depend_on_each_other():
    """Releases that name a few favourites over and over, and know no coin."""
    draw, runs, alarms = np.random.default_rng(0), 3000, 0
    for _ in range(runs):
        favourites = draw.dirichlet(np.full(20, 10.0 ** draw.uniform(-1.5, 1)))
        weights = draw.multinomial(100, favourites)
        alarms += coin_test.p_value(weights, draw.random(20) < 0.5, draw) <= 0.05
    assert alarms <= binom.ppf(0.999, runs, 0.05)


def test_it_finds_a_release_that_names_whom_it_knows():
    draw, found = np.random.default_rng(0), 0
    for _ in range(200):
        coins = draw.random(60) < 0.5
        shares = np.where(coins, 3.0, 1.0)
        weights = draw.multinomial(200, shares / shares.sum())
        found += coin_test.p_value(weights, coins, draw) <= 0.05
    assert found >= 180


def test_large_weights_are_sampled(monkeypatch):
    draw = np.random.default_rng(1)
    weights, coins = draw.integers(0, 50, 30), draw.random(30) < 0.6
    exact = coin_test.p_value(weights, coins, draw)
    monkeypatch.setattr(coin_test, "_CELLS", 10)
    monkeypatch.setattr(coin_test, "_CELLS_AT_ONCE", 3000)
    sampled = coin_test.p_value(weights, coins, draw, resamples=40_000)
    assert sampled == pytest.approx(exact, abs=4 * math.sqrt(exact / 40_000))
    assert coin_test.p_value(weights, weights > 0, draw, resamples=99) == 0.01
    assert coin_test.smallest(weights, resamples=99) == 0.01


def test_sampling_counts_outcomes_as_large_as_the_observed(monkeypatch):
    monkeypatch.setattr(coin_test, "_CELLS", 0)
    found = coin_test.p_value([1, 1, 1], [True, True, False], STREAM, resamples=40_000)
    assert found == pytest.approx(0.5, abs=0.02)


def test_sampling_keeps_the_level(monkeypatch):
    monkeypatch.setattr(coin_test, "_CELLS", 0)
    draw, runs, alarms = np.random.default_rng(0), 2000, 0
    for _ in range(runs):
        weights = draw.geometric(0.2, size=12)
        alarms += coin_test.p_value(weights, draw.random(12) < 0.5, draw, resamples=59) <= 0.05
    assert runs * 0.03 < alarms <= binom.ppf(0.999, runs, 0.05)


def test_a_thousand_owners_are_quick_and_never_certain():
    weights = np.full(3000, 60)
    assert coin_test.p_value(weights, np.ones(3000), STREAM) == 1e-300
    assert coin_test.smallest(weights) == 1e-300


@pytest.mark.parametrize(
    ("weights", "coins"),
    [([1], [1, 0]), ([-1], [1]), ([0.5], [1]), ([[1]], [[1]]), ([math.nan], [1])],
)
def test_bad_weights_are_refused(weights, coins):
    with pytest.raises(ValueError):
        coin_test.p_value(weights, coins, STREAM)
