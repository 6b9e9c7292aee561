import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.discoverable import expected_distinct, queries_needed


def test_expected_distinct_by_hand():
    # two draws from a coin of two secrets: 1/2 + 1/2 once surely one, plus 1/2 for the other
    assert expected_distinct([0.5, 0.5], 2) == pytest.approx(1.5)
    assert expected_distinct([1.0, 0.0], 5) == 1.0
    assert expected_distinct([1.0], 0) == 0.0
    assert expected_distinct([], 7) == 0.0
    assert expected_distinct([1e-20] * 3, 1000) == pytest.approx(3e-17, rel=1e-12)


def test_expected_distinct_is_that_of_draws():
    draw = np.random.default_rng(0)
    p = np.array([0.4, 0.1, 0.02, 0.48])
    drawn = draw.choice(4, size=(20000, 12), p=p)
    seen = np.mean([(drawn == secret).any(axis=1).mean() for secret in range(3)])
    assert expected_distinct(p[:3], 12) == pytest.approx(3 * seen, abs=0.02)


@given(st.floats(1e-12, 1), st.floats(1e-6, 1 - 1e-6))
def test_queries_needed_are_the_fewest_that_suffice(p_z, p):
    n = queries_needed(p_z, p)
    assert n == int(n) >= 1
    assert expected_distinct([p_z], int(n)) >= p * (1 - 1e-9)
    assert expected_distinct([p_z], int(n) - 1) < p * (1 + 1e-9)


def test_queries_needed_by_hand():
    cases = {(0.5, 0.75): 2, (1.0, 0.99): 1, (0.01, 0.5): 69, (0.0, 0.5): math.inf}
    for (p_z, p), n in cases.items():
        assert queries_needed(p_z, p) == n
