"""The lower bound on a mean by betting: its level, how near it comes, and Hoeffding's beside it."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from audit.statistics.betting import exceeds, mean_lower
from tests.simulations import BOUNDED, most, repeats


@repeats(60, 2000)
def test_true_means_are_refuted_at_most_at_level(runs: int) -> None:
    for (law, (sample, mean)), n in ((item, n) for item in BOUNDED.items() for n in (20, 200, 999)):
        draw = np.random.default_rng(n)
        wrong = np.mean([exceeds(sample(draw, n), mean) for _ in range(runs)])
        assert wrong <= most(runs), (law, n)


def test_level_holds_by_enumeration() -> None:
    """All 2^10 rows of coins: at their mean, wealth of 1/γ is reached with chance at most γ."""
    for mean in (0.1, 0.3, 0.5):
        chance = 0.0
        for code in range(2**10):
            row = np.array([float(code >> i & 1) for i in range(10)])
            if exceeds(row, mean, confidence=0.9):
                chance += mean ** row.sum() * (1 - mean) ** (10 - row.sum())
        assert 0.0 < chance <= 0.1


def test_bound_is_near_the_mean_and_above_hoeffding() -> None:
    for (law, (sample, mean)), n in ((item, n) for item in BOUNDED.items() for n in (50, 1000)):
        draw = np.random.default_rng(n)
        rows = [sample(draw, n) for _ in range(40)]
        found = np.mean([mean_lower(row) for row in rows])
        hoeffding = [max(0.0, row.mean() - math.sqrt(math.log(20) / (2 * n))) for row in rows]
        assert np.mean(hoeffding) < found + 1e-9 < mean + 1e-9, (law, n)
        spread = math.sqrt(2 * math.log(20) * float(sample(draw, 100_000).var()) / n)
        assert found > mean - 1.4 * spread - 4 / n, (law, n)  # nearly a normal law's own width


def test_bound_of_equal_ends_is_nearly_exact() -> None:
    for n in (10, 100, 1000):
        exact = float(beta.ppf(0.05, n, 1))
        assert exact - 2.2 / n < mean_lower(np.ones(n)) < exact
        assert mean_lower(np.zeros(n)) == 0.0
    assert mean_lower([]) == 0.0


rows = st.lists(st.floats(0, 1), min_size=1, max_size=60).map(np.array)


@given(rows, st.floats(0.6, 0.999), st.floats(0, 1))
def test_bound_is_where_the_bet_stops_winning(
    values: np.ndarray, confidence: float, mean: float
) -> None:
    bound = mean_lower(values, confidence)
    assert 0.0 <= bound < 1.0
    if bound > 1e-8:
        assert exceeds(values, bound - 1e-8, confidence)
    if abs(mean - bound) > 1e-6:
        assert exceeds(values, mean, confidence) is (mean < bound)
    assert mean_lower(values, min(0.9995, confidence + 0.01)) <= bound + 1e-9 or len(values) > 1


def test_one_bet_by_hand() -> None:
    """λ₁ = sqrt(2 ln(1/γ)/(n/4)), at most ¾ of 1/mean: a value of 1 at mean ½ gives 1 + ¾ · 1."""
    gain = 1 + 0.75 / 0.5 * 0.5
    assert exceeds([1.0], 0.5, 1 - 1 / gain + 1e-9) is False
    assert exceeds([1.0], 0.5, 1 - 1 / gain - 1e-9) is True
    stake = math.sqrt(2 * math.log(2) / 0.25)  # at γ = ½; below ¾ / .2
    assert stake < 0.75 / 0.2
    assert exceeds([0.55], 0.2, 0.5) is bool(1 + stake * 0.35 >= 2) is False
    assert exceeds([0.7], 0.2, 0.5) is bool(1 + stake * 0.5 >= 2) is True


def test_a_stake_rests_on_earlier_values_only() -> None:
    first, second, mean = 0.5, 0.9, 0.45
    between = (0.5 + first) / 2
    variance = (0.25 + (first - between) ** 2) / 2
    for gamma in np.linspace(0.3, 0.9, 61):
        stakes = [math.sqrt(2 * math.log(1 / gamma) / (2 * v)) for v in (0.25, variance)]
        capped = [min(stake, 0.75 / mean) for stake in stakes]
        after_one = 1 + capped[0] * (first - mean)
        wealth = max(1, after_one, after_one * (1 + capped[1] * (second - mean)))
        assert exceeds([first, second], mean, 1 - gamma) is bool(wealth >= 1 / gamma)
