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
    assert (largest_epsilon(0), smallest_rate(0)) == (0.0, 1.0)


def test_no_result_shows_more_than_the_power():
    for r in (40, 20):
        shown = [epsilon_lower(40, r, v, 1e-3) for v in range(r + 1)]
        assert max(shown) == largest_epsilon(40, 1e-3, r=r) <= largest_epsilon(40, 1e-3)


@given(st.integers(1, 10**6), st.sampled_from([0.9, 0.95, 0.99]))
def test_smallest_rate_makes_no_hit_unlikely(n, confidence):
    assert (1 - smallest_rate(n, confidence)) ** n == pytest.approx(1 - confidence, rel=1e-6)


@given(st.floats(1e-6, 0.99), st.sampled_from([0.9, 0.95, 0.99]))
def test_sample_size_is_the_fewest_that_suffice(limit, confidence):
    n = sample_size_for(limit, confidence)
    assert smallest_rate(n, confidence) <= limit * (1 + 1e-9)
    assert smallest_rate(n - 1, confidence) > limit * (1 - 1e-9)
