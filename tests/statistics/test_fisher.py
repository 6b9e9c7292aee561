"""Fisher's combination: its closed form, its level, and what one test less sure does to it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.fisher import combined_p_value

PS = st.floats(1e-12, 1.0)


@given(PS, PS)
def test_two_have_the_area_below_a_hyperbola(p: float, q: float) -> None:
    """P(UV <= pq) = pq (1 − log pq) for independent uniform U, V."""
    assert combined_p_value([p, q]) == pytest.approx(p * q * (1 - math.log(p * q)), rel=1e-9)
    assert combined_p_value([p]) == pytest.approx(p, rel=1e-9)
    assert combined_p_value([0.0, q]) == 0.0


@given(st.lists(PS, min_size=1, max_size=8), st.data())
def test_combination_falls_with_each(ps: list[float], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(ps) - 1))
    less = [*ps[:i], ps[i] / 2, *ps[i + 1 :]]
    assert combined_p_value(less) <= combined_p_value(ps)
    assert combined_p_value([*ps, 1.0]) >= combined_p_value(ps) * (1 - 1e-9)


@pytest.mark.calibration
def test_combination_is_uniform_or_conservative() -> None:
    """Of uniform p-values, and of those of discrete tests."""
    for n, level in itertools.product((2, 3, 10), (0.01, 0.05, 0.2)):
        draw = np.random.default_rng(n)
        uniform, coins = draw.random((4000, n)), draw.choice([0.25, 1.0], (4000, n), p=[0.25, 0.75])
        slack = 4 * math.sqrt(level * (1 - level) / 4000)
        alarms, rare = (
            np.mean([combined_p_value(row) <= level for row in rows]) for rows in (uniform, coins)
        )
        assert abs(alarms - level) <= slack and rare <= level + slack, (n, level)
