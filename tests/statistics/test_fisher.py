"""Fisher's combination: its closed form, its level, and what one test less sure does to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.fisher import combined_p_value
from tests.simulations import repeats

PS = st.floats(1e-12, 1.0)


@given(PS, PS)
def test_of_two_it_is_the_area_below_a_hyperbola(p: float, q: float) -> None:
    """P(UV <= pq) = pq (1 − log pq) for independent uniform U, V."""
    assert combined_p_value([p, q]) == pytest.approx(p * q * (1 - math.log(p * q)), rel=1e-9)


@given(PS)
def test_of_one_it_is_that_one(p: float) -> None:
    assert combined_p_value([p]) == pytest.approx(p, rel=1e-9)


@given(st.lists(PS, min_size=1, max_size=8), st.data())
def test_it_falls_with_each(ps: list[float], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(ps) - 1))
    less = [*ps[:i], ps[i] / 2, *ps[i + 1 :]]
    assert combined_p_value(less) <= combined_p_value(ps)
    assert combined_p_value([*ps, 1.0]) >= combined_p_value(ps) * (1 - 1e-9)


@repeats(400, 4000)
@pytest.mark.parametrize("n", [2, 3, 10])
def test_it_is_uniform_under_the_null_and_below_that_for_discrete_tests(n: int, runs: int) -> None:
    rng = np.random.default_rng(n)
    uniform = np.array([combined_p_value(row) for row in rng.random((runs, n))])
    coins = np.array(
        [combined_p_value(row) for row in rng.choice([0.25, 1.0], (runs, n), p=[0.25, 0.75])]
    )
    for level in (0.01, 0.05, 0.2):
        slack = 4 * math.sqrt(level * (1 - level) / runs)
        assert abs((uniform <= level).mean() - level) <= slack
        assert (coins <= level).mean() <= level + slack


def test_what_is_no_p_value_is_refused() -> None:
    assert combined_p_value([0.0, 0.5]) == 0.0
    for wrong in ([], [1.1], [-0.1], [math.nan], [[0.5]]):
        with pytest.raises(ValueError, match="p-values"):
            combined_p_value(wrong)
