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
from tests.simulations import most, repeats

STREAM = np.random.default_rng(0)
units = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=9)


@given(units)
def test_p_value_counts_every_outcome(units):
    """Those at least as far from the mean on the same side, twice: the other side is a leak too."""
    weights, coins = zip(*units, strict=True)
    away = np.dot(weights, coins) - sum(weights) / 2
    outcomes = itertools.product([0, 1], repeat=len(weights))
    totals = np.array([np.dot(weights, outcome) for outcome in outcomes]) - sum(weights) / 2
    one_side = np.mean(totals >= away) if away > 0 else np.mean(totals <= away)
    found = coin_test.p_value(weights, coins, STREAM)
    assert found == pytest.approx(min(1.0, 2 * one_side), rel=1e-12)
    assert found >= coin_test.smallest(weights) * (1 - 1e-12)
    if all(coins) or not any(coins):
        assert found == pytest.approx(coin_test.smallest(weights))


@given(units)
def test_both_sides_have_one_p_value(units):
    weights, coins = zip(*units, strict=True)
    turned = [not coin for coin in coins]
    same = coin_test.p_value(weights, coins, STREAM)
    assert coin_test.p_value(weights, turned, STREAM) == same


def test_equal_weights_are_both_binomial_tails():
    """P[40 or more of 60] and P[20 or fewer of 60]."""
    coins = [True] * 40 + [False] * 20
    both = binom.sf(39, 60, 0.5) + binom.cdf(20, 60, 0.5)
    for weight in (1, 7):
        for side in (coins, coins[::-1], [not coin for coin in coins]):
            found = coin_test.p_value([weight] * 60, side, STREAM)
            assert found == pytest.approx(both, rel=1e-9)


def test_one_favourite_owner_is_no_evidence():
    for side in ([True, False, True], [False, False, True]):
        assert coin_test.p_value([1000, 0, 0], side, STREAM) == 1.0
    assert coin_test.smallest([1000, 0, 0]) == 1.0
    assert coin_test.smallest([1000, 1, 0]) == 0.5
    assert coin_test.p_value([3] * 4, [True, True, False, False], STREAM) == 1.0
    assert coin_test.p_value([0, 0], [True, True], STREAM) == 1.0
    assert coin_test.smallest([0, 0]) == 1.0
    assert coin_test.p_value([], [], STREAM) == 1.0


def test_a_block_list_is_detected():
    """Ten who are trained on are never named, ten who are not are: 2 · 2^−10."""
    blocked = [0] * 10 + [1] * 10
    found = coin_test.p_value(blocked, [True] * 10 + [False] * 10, STREAM)
    assert found == pytest.approx(2.0**-9)


@repeats(200, 3000)
def test_level_holds_for_dependent_weights(runs):
    """Releases that name a few favourites over and over, and know no coin."""
    draw, alarms = np.random.default_rng(0), 0
    for _ in range(runs):
        favourites = draw.dirichlet(np.full(20, 10.0 ** draw.uniform(-1.5, 1)))
        weights = draw.multinomial(100, favourites)
        alarms += coin_test.p_value(weights, draw.random(20) < 0.5, draw) <= 0.05
    assert alarms / runs <= most(runs)


@repeats(200, 2000)
def test_level_holds_where_coins_are_sampled(monkeypatch, runs):
    monkeypatch.setattr(coin_test, "_CELLS", 0)
    draw, alarms = np.random.default_rng(0), 0
    for _ in range(runs):
        weights = draw.geometric(0.2, size=12)
        alarms += coin_test.p_value(weights, draw.random(12) < 0.5, draw, resamples=119) <= 0.05
    assert 0.02 < alarms / runs <= most(runs)


def test_large_weights_are_sampled(monkeypatch):
    draw = np.random.default_rng(1)
    weights, coins = draw.integers(0, 50, 30), draw.random(30) < 0.6
    exact = coin_test.p_value(weights, coins, draw)
    monkeypatch.setattr(coin_test, "_CELLS", 10)
    monkeypatch.setattr(coin_test, "_CELLS_AT_ONCE", 3000)
    sampled = coin_test.p_value(weights, coins, draw, resamples=40_000)
    assert sampled == pytest.approx(exact, abs=8 * math.sqrt(exact / 2 / 40_000))
    for all_alike in (weights > 0, weights < 0):
        assert coin_test.p_value(weights, all_alike, draw, resamples=99) == 0.02
    assert coin_test.smallest(weights, resamples=99) == 0.02


def test_sampling_counts_outcomes_as_far_out(monkeypatch):
    """Four or five of five, or as few: 2 · 6/32."""
    monkeypatch.setattr(coin_test, "_CELLS", 0)
    for coins in ([True] * 4 + [False], [False] * 4 + [True]):
        found = coin_test.p_value([1] * 5, coins, STREAM, resamples=40_000)
        assert found == pytest.approx(12 / 32, abs=0.02)
    for _ in range(20):  # two or more of three are every second outcome, on either side
        found = coin_test.p_value([1, 1, 1], [True, True, False], STREAM, resamples=99)
        assert 0.7 < found <= 1.0


def test_totals_up_to_the_limit_are_exact(monkeypatch):
    """All of three alike: 2 · 2^−3, or at least 2 of 1 + 3 resamples."""
    for cells, exact in ((3, True), (2, False)):
        monkeypatch.setattr(coin_test, "_CELLS", cells)
        found = coin_test.p_value([1, 1, 1], [True] * 3, STREAM, resamples=3)
        assert (found == 0.25) == exact
        assert coin_test.smallest([1, 1, 1], resamples=3) == (0.25 if exact else 0.5)


def test_each_resample_is_drawn_once(monkeypatch):
    for at_once in (1, 7, 1 << 22):
        monkeypatch.setattr(coin_test, "_CELLS_AT_ONCE", at_once)
        assert coin_test._as_large(np.array([1, 2]), 0, STREAM, 100) == 100  # all sums are >= 0
        assert coin_test._as_large(np.array([1, 2]), 4, STREAM, 100) == 0


def test_many_owners_are_never_certain():
    weights = np.full(3000, 60)
    assert coin_test.p_value(weights, np.ones(3000), STREAM) == 1e-300
    assert coin_test.smallest(weights) == 1e-300
