import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.discoverable import expected_distinct, queries_needed


def test_by_hand():
    # two draws from a coin of two secrets: 1/2 + 1/2 once surely one, plus 1/2 for the other
    assert expected_distinct([0.5, 0.5], 2) == pytest.approx(1.5)
    assert expected_distinct([1.0, 0.0], 5) == 1.0
    assert expected_distinct([1.0], 0) == 0.0
    assert expected_distinct([], 7) == 0.0


def test_tiny_probabilities_keep_their_digits():
    assert expected_distinct([1e-20] * 3, 1000) == pytest.approx(3e-17, rel=1e-12)


def test_agrees_with_drawing():
    draw = np.random.default_rng(0)
    p = np.array([0.4, 0.1, 0.02, 0.48])
    drawn = draw.choice(4, size=(20000, 12), p=p)
    seen = np.mean([len(set(row) - {3}) for row in drawn])  # 3 is no secret
    assert expected_distinct(p[:3], 12) == pytest.approx(seen, abs=0.02)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 10**6))
def test_rises_with_draws_and_stays_below_both_counts(p, n):
    now = expected_distinct(p, n)
    assert 0 <= now <= min(len(p), n * sum(p)) * (1 + 1e-9)
    assert now <= expected_distinct(p, n + 1)


@given(st.floats(1e-12, 1), st.floats(1e-6, 1 - 1e-6))
def test_queries_needed_is_the_fewest_that_will_do(p_z, p):
    n = queries_needed(p_z, p)
    assert n == int(n) >= 1
    assert expected_distinct([p_z], int(n)) >= p * (1 - 1e-9)
    assert expected_distinct([p_z], int(n) - 1) < p * (1 + 1e-9)


def test_queries_needed_by_hand():
    assert queries_needed(0.5, 0.75) == 2
    assert queries_needed(1.0, 0.99) == 1
    assert queries_needed(0.01, 0.5) == 69
    assert queries_needed(0.0, 0.5) == math.inf


def test_bad_values_are_refused():
    for p in ([1.1], [-0.1], [math.nan]):
        with pytest.raises(ValueError):
            expected_distinct(p, 1)
    with pytest.raises(ValueError):
        expected_distinct([0.1], -1)
    for p_z, p in [(-0.1, 0.5), (1.1, 0.5), (0.5, 0.0), (0.5, 1.0), (math.nan, 0.5)]:
        with pytest.raises(ValueError):
            queries_needed(p_z, p)
