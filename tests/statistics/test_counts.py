"""The test of how often people appear: every choice of as many heads, and its level."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from audit.statistics import tossed
from audit.statistics.tossed import OfOwners, Ranked, Summed, least_of_counts, of_counts
from tests.simulations import most, repeats

users = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=9)


@given(users)
def test_p_value_counts_every_choice_of_heads(users):
    """Those of as high a sum, or of as low a one, whichever are fewer, twice."""
    counts, coins = (np.array(column) for column in zip(*users, strict=True))
    choices = itertools.combinations(counts, int(coins.sum()))
    sums, own = np.array([sum(choice) for choice in choices]), counts @ coins
    expected = min(1.0, 2 * min(np.mean(sums >= own), np.mean(sums <= own)))
    found = Summed(counts.astype(float)).p_value(coins)
    assert found == pytest.approx(expected, rel=1e-9)
    assert found >= least_of_counts(int(coins.sum()), len(coins))
    assert Summed(counts.astype(float)).p_value(~coins) == pytest.approx(found)


def test_appearances_once_are_hypergeometric():
    """19 of 20 people who appear are among 49 of 120; such a p-value is twice the upper tail."""
    counts, coins = np.zeros(120), np.arange(120) < 49
    counts[:19] = counts[60] = 1
    expected = 2 * hypergeom.sf(18, 120, 20, 49)
    assert Summed(counts).p_value(coins) == pytest.approx(expected, rel=1e-9)
    owners = np.arange(120)[::-1]  # of reversed users
    found = OfOwners(Summed(counts), owners).p_value(coins[::-1])
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_block_list_is_detected():
    """Ten who are trained on are never named, ten who are not are: two of C(20, 10) choices."""
    blocked = np.arange(20.0) >= 10
    assert Summed(blocked.astype(float)).p_value(~blocked) == pytest.approx(2 / 184_756)
    assert least_of_counts(10, 20) == pytest.approx(2 / 184_756)


def test_p_value_is_never_below_the_least():
    """Where counts are many, too: of ranks with ties one choice can be farther out than all."""
    for coins in (np.arange(60) < 20, np.arange(60) >= 20):
        counts = np.where(coins == coins[0], 40_000.0, 0.0)
        least = least_of_counts(int(coins.sum()), 60)
        for test in (of_counts(counts), of_counts(counts / 40_000)):
            assert test.p_value(coins) / least == pytest.approx(1.0)
    for users in range(2, 60):  # to the last bit
        coins = np.arange(users) < users // 2
        assert Summed(coins * 2.0).p_value(coins) >= least_of_counts(users // 2, users)


def test_tosses_of_as_many_heads_share_one_law(monkeypatch):
    """The hypergeometric law of thousands of users takes milliseconds a column."""
    columns, law = [], hypergeom.pmf
    monkeypatch.setattr(
        hypergeom, "pmf", lambda k, *sizes: columns.append(np.size(sizes[-1])) or law(k, *sizes)
    )
    coins = np.array([np.roll(np.arange(9) < 4, by) for by in range(9)])
    assert len(set(Summed(np.arange(9.0)).p_values(coins))) > 2
    assert columns == [1]


def test_one_favourite_or_one_side_is_no_evidence():
    for coins in ([True, False, True], [False, False, True], [True] * 3, [False] * 3):
        assert Summed(np.array([1000.0, 0, 0])).p_value(np.array(coins)) > 0.6
        assert Summed(np.zeros(3)).p_value(np.array(coins)) == 1.0
    assert least_of_counts(3, 3) == least_of_counts(0, 3) == 1.0


@repeats(200, 3000)
def test_level_holds_for_dependent_counts(runs):
    """Releases that name a few favourites over and over, and know no coin."""
    draw, alarms = np.random.default_rng(0), 0
    for _ in range(runs):
        favourites = draw.dirichlet(np.full(20, 10.0 ** draw.uniform(-1.5, 1)))
        counts = draw.multinomial(100, favourites).astype(float)
        alarms += of_counts(counts).p_value(draw.random(20) < 0.5) <= 0.05
    assert alarms / runs <= most(runs)


def test_many_counts_are_ranked(monkeypatch):
    """As many as the limit allows are exact: 3 people above 0 whose counts add up to 6."""
    counts = np.array([1.0, 2.0, 3.0, *np.zeros(62)])
    for steps, kind in ((54, Summed), (53, Ranked)):
        monkeypatch.setattr(tossed, "_STEPS", steps)
        assert type(of_counts(counts)) is kind
    lower_is_a_leak = of_counts(np.arange(100.0)).p_value(np.arange(100) < 50)
    assert lower_is_a_leak == of_counts(np.arange(100.0)).p_value(np.arange(100) >= 50) < 1e-12


def test_many_owners_are_never_certain():
    counts = np.concatenate([np.ones(500), np.zeros(2500)])
    assert 0 < Summed(counts).p_value(np.arange(3000) < 1500) < 1e-150
    assert 0 <= least_of_counts(1500, 3000) < 1e-300
