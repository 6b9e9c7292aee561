import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.one_run import epsilon_lower
from audit.statistics.power import largest_epsilon, sample_size_for, smallest_rate


def test_known_powers():
    assert round(largest_epsilon(100, 1e-5), 2) == 3.49
    assert round(largest_epsilon(1000, 1e-5), 2) == 5.78
    assert round(smallest_rate(200), 3) == 0.015
    assert sample_size_for(0.01) == 299


def test_no_result_shows_more_than_the_power():
    most = largest_epsilon(60, 1e-3)
    shown = [epsilon_lower(60, r, v, 1e-3) for r in range(61) for v in range(r + 1)]
    assert max(shown) == most
    fewer = largest_epsilon(60, 1e-3, r=20)
    assert fewer == max(epsilon_lower(60, 20, v, 1e-3) for v in range(21)) < most


@given(st.integers(1, 10**6), st.sampled_from([0.9, 0.95, 0.99]))
def test_smallest_rate_is_where_seeing_nothing_becomes_unlikely(n, confidence):
    assert (1 - smallest_rate(n, confidence)) ** n == pytest.approx(1 - confidence, rel=1e-6)


@given(st.floats(1e-6, 0.99), st.sampled_from([0.9, 0.95, 0.99]))
def test_sample_size_is_the_fewest_that_will_do(limit, confidence):
    n = sample_size_for(limit, confidence)
    assert smallest_rate(n, confidence) <= limit * (1 + 1e-9)
    assert smallest_rate(n - 1, confidence) > limit * (1 - 1e-9)


def test_nothing_tried_nothing_shown():
    assert largest_epsilon(0) == 0.0
    assert smallest_rate(0) == 1.0


def test_bad_settings_are_refused():
    for limit in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="limit"):
            sample_size_for(limit)
    with pytest.raises(ValueError, match="confidence"):
        sample_size_for(0.1, 1.0)
    with pytest.raises(ValueError):
        smallest_rate(-1)
    with pytest.raises(ValueError):
        largest_epsilon(5, r=6)
