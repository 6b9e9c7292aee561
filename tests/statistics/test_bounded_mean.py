"""The interval of a mean of values in [0, 1]: against the binomial law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from audit.statistics.bounded_mean import bounds, mean_interval


def test_ends_have_the_exact_binomial_interval() -> None:
    """A bootstrap would say [0, 0]: it cannot know of a secret that was not drawn."""
    for n in (1, 5, 21, 60):
        none, every = mean_interval(np.zeros(n)), mean_interval(np.ones(n))
        assert none.ci == pytest.approx((0.0, 1 - 0.025 ** (1 / n)), abs=1e-8)
        assert every.ci == pytest.approx((0.025 ** (1 / n), 1.0), abs=1e-8)
        assert (none.value, none.n, none.method) == (0.0, n, "binomial tail means, two-sided")
    nothing = mean_interval([])
    assert (nothing.value, nothing.ci, nothing.n) == (None, None, 0)


def tail_mean(k: int, a: float, tail: float = 0.025) -> float:
    """The mean of the upper tail of Bin(k, a)/k, outcome by outcome from the top."""
    left, total = tail, 0.0
    for j in range(k, -1, -1):
        taken = min(left, float(binom.pmf(j, k, a)))
        total, left = total + taken * j, left - taken
    return total / tail / k


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_ends_are_where_a_tail_has_the_mean(values: list[float]) -> None:
    found, n = mean_interval(values), len(values)
    assert found.low is not None and found.high is not None and found.value is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert tail_mean(n, found.low) == pytest.approx(found.value, abs=1e-6)
    assert tail_mean(n, 1 - found.high) == pytest.approx(1 - found.value, abs=1e-6)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 200))
def test_ends_rise_with_mean_and_close_in_with_n(a: float, b: float, k: int) -> None:
    low, high = sorted((a, b))
    assert all(x <= y + 1e-8 for x, y in zip(bounds(low, k), bounds(high, k), strict=True))
    wide, narrow = bounds(a, k), bounds(a, k + 1)
    assert wide[0] <= narrow[0] + 1e-8 and narrow[1] <= wide[1] + 1e-8
