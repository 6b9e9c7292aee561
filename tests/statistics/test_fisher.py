"""Fisher's combination: its closed form, and what one test less sure does to it."""

from __future__ import annotations

import math

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
