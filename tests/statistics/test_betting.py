"""The lower bound on a mean by betting: its level, how near it comes, and Hoeffding's beside it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from audit.statistics.betting import exceeds, mean_lower
from tests.simulations import repeats

LAWS: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], float]] = {
    "1 in 100": (lambda draw, n: (draw.random(n) < 0.01) * 1.0, 0.01),
    "1 in 10": (lambda draw, n: (draw.random(n) < 0.1) * 1.0, 0.1),
    "a coin": (lambda draw, n: (draw.random(n) < 0.5) * 1.0, 0.5),
    "9 in 10": (lambda draw, n: (draw.random(n) < 0.9) * 1.0, 0.9),
    "uniform": (lambda draw, n: draw.random(n), 0.5),
    "small": (lambda draw, n: draw.random(n) / 10, 0.05),
    "cubes": (lambda draw, n: draw.random(n) ** 9, 0.1),
    "one": (lambda draw, n: np.full(n, 0.3), 0.3),
}


def hoeffding(values: np.ndarray) -> float:
    return max(0.0, float(values.mean()) - math.sqrt(math.log(20) / (2 * len(values))))


@pytest.mark.parametrize("n", [20, 200, 1000])
@pytest.mark.parametrize("law", LAWS)
@repeats(100, 2000)
def test_it_is_too_high_as_seldom_as_it_says(law: str, n: int, runs: int) -> None:
    sample, mean = LAWS[law]
    draw = np.random.default_rng(n)
    wrong = np.mean([exceeds(sample(draw, n), mean) for _ in range(runs)])
    assert wrong <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("n", [50, 1000])
@pytest.mark.parametrize("law", LAWS)
def test_it_is_tighter_than_hoeffding_and_near_the_mean(law: str, n: int) -> None:
    sample, mean = LAWS[law]
    draw = np.random.default_rng(n)
    rows = [sample(draw, n) for _ in range(40)]
    found, other = (np.mean([bound(row) for row in rows]) for bound in (mean_lower, hoeffding))
    assert other < found + 1e-9 < mean + 1e-9
    spread = math.sqrt(2 * math.log(20) * float(sample(draw, 100_000).var()) / n)
    assert found > mean - 1.4 * spread - 4 / n  # the width of a normal law's own bound, nearly


@pytest.mark.parametrize("n", [10, 100, 1000])
def test_alike_at_an_end_it_is_near_the_exact_bound_for_so_many_trials(n: int) -> None:
    exact = float(beta.ppf(0.05, n, 1))
    assert exact - 2.2 / n < mean_lower(np.ones(n)) < exact
    assert mean_lower(np.zeros(n)) == 0.0


def test_its_level_by_enumeration() -> None:
    """All 2^12 rows of coins: at their mean, wealth of 1/γ is reached with chance at most γ."""
    for mean in (0.1, 0.3, 0.5):
        chance = 0.0
        for code in range(2**12):
            row = np.array([float(code >> i & 1) for i in range(12)])
            if exceeds(row, mean, confidence=0.9):
                chance += mean ** row.sum() * (1 - mean) ** (12 - row.sum())
        assert 0.0 < chance <= 0.1


rows = st.lists(st.floats(0, 1), min_size=1, max_size=60).map(np.array)


@given(rows, st.floats(0.6, 0.999), st.floats(0, 1))
def test_the_bound_is_where_the_bet_stops_winning(
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


def test_a_stake_knows_the_values_before_it_only() -> None:
    """Two values: the second's stake rests on the first, and not on the second itself."""
    first, second, mean = 0.5, 0.9, 0.45
    between = (0.5 + first) / 2
    variance = (0.25 + (first - between) ** 2) / 2
    for gamma in np.linspace(0.3, 0.9, 61):
        stakes = [math.sqrt(2 * math.log(1 / gamma) / (2 * v)) for v in (0.25, variance)]
        capped = [min(stake, 0.75 / mean) for stake in stakes]
        after_one = 1 + capped[0] * (first - mean)
        wealth = max(1, after_one, after_one * (1 + capped[1] * (second - mean)))
        assert exceeds([first, second], mean, 1 - gamma) is bool(wealth >= 1 / gamma)


def test_no_values_and_bad_ones() -> None:
    assert mean_lower([]) == 0.0
    for bad in ([-0.1], [1.1], [math.nan], [[0.5]]):
        with pytest.raises(ValueError, match="values"):
            mean_lower(bad)
    with pytest.raises(ValueError, match="confidence"):
        mean_lower([0.5], 1.0)
