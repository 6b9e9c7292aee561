"""The interval of a mean of values in [0, 1]: against the binomial law, and its coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from audit.statistics.bounded_mean import bounds, mean_interval
from tests.simulations import repeats


@pytest.mark.parametrize("n", [1, 5, 21, 60])
def test_all_alike_at_an_end_is_as_sure_as_so_many_trials(n: int) -> None:
    """A bootstrap would say [0, 0]: it cannot know of a secret that was not drawn."""
    none, all_of_them = mean_interval(np.zeros(n)), mean_interval(np.ones(n))
    assert none.ci == pytest.approx((0.0, 1 - 0.025 ** (1 / n)), abs=1e-8)
    assert all_of_them.ci == pytest.approx((0.025 ** (1 / n), 1.0), abs=1e-8)
    assert (none.value, none.n, none.method) == (0.0, n, "binomial tail means, two-sided")


def tail_mean(k: int, a: float, tail: float = 0.025) -> float:
    """The mean of the upper tail of Bin(k, a)/k, outcome by outcome from the top."""
    left, total = tail, 0.0
    for j in range(k, -1, -1):
        taken = min(left, float(binom.pmf(j, k, a)))
        total, left = total + taken * j, left - taken
    return total / tail / k


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_the_ends_are_where_a_binomial_tail_has_the_mean_for_its_own(values: list[float]) -> None:
    found, n = mean_interval(values), len(values)
    assert found.low is not None and found.high is not None and found.value is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert tail_mean(n, found.low) == pytest.approx(found.value, abs=1e-6)
    assert tail_mean(n, 1 - found.high) == pytest.approx(1 - found.value, abs=1e-6)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 200))
def test_ends_rise_with_the_mean_and_close_in_with_more_values(a: float, b: float, k: int) -> None:
    low, high = sorted((a, b))
    assert all(x <= y + 1e-8 for x, y in zip(bounds(low, k), bounds(high, k), strict=True))
    wide, narrow = bounds(a, k), bounds(a, k + 1)
    assert wide[0] <= narrow[0] + 1e-8 and narrow[1] <= wide[1] + 1e-8


LAWS = {  # skewed, as probabilities of secrets are: nearly all tiny, few nearly 1
    "1 in 10": (lambda draw, shape: np.where(draw.random(shape) < 0.1, 0.9, 1e-6), 0.0900009),
    "1 in 33": (lambda draw, shape: np.where(draw.random(shape) < 0.03, 0.9, 1e-6), 0.02700097),
    "1 in 100": (lambda draw, shape: np.where(draw.random(shape) < 0.01, 0.9, 1e-6), 0.00900099),
    "all but 1 in 20": (lambda draw, shape: (draw.random(shape) < 0.95) * 1.0, 0.95),
    "uniform": (lambda draw, shape: draw.random(shape), 0.5),
    "cubes": (lambda draw, shape: draw.random(shape) ** 9, 0.1),
    "one": (lambda draw, shape: np.full(shape, 0.3), 0.3),
}


@pytest.mark.parametrize("n", [5, 21, 60])
@pytest.mark.parametrize("law", LAWS)
@repeats(200, 2000)
def test_each_end_errs_as_seldom_as_it_says(law: str, n: int, runs: int) -> None:
    """Truth below the low end, or above the high one: at most 2.5 % each."""
    sample, truth = LAWS[law]
    allowed = 0.025 + 3 * math.sqrt(0.025 * 0.975 / runs)
    means = sample(np.random.default_rng(n), (runs, n)).mean(axis=1)
    ends = {mean: bounds(mean, n) for mean in np.unique(np.round(means, 4))}
    found = np.array([ends[mean] for mean in np.round(means, 4)])
    assert np.mean(found[:, 0] > truth + 1e-4) <= allowed
    assert np.mean(found[:, 1] < truth - 1e-4) <= allowed


def test_none_and_bad_values() -> None:
    nothing = mean_interval([])
    assert (nothing.value, nothing.ci, nothing.n) == (None, None, 0)
    for bad in ([-0.1], [1.1], [math.nan], [[0.5]]):
        with pytest.raises(ValueError, match="values"):
            mean_interval(bad)
    with pytest.raises(ValueError, match="confidence"):
        mean_interval([0.5], 1.0)
