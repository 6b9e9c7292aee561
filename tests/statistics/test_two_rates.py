"""The bound from two error rates: by hand, its coverage by exact enumeration, its sharpness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import binom

from audit.statistics.two_rates import epsilon_lower

counts = st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def true_epsilon(fpr: float, fnr: float, delta: float = 0.0) -> float:
    """The smallest ε that allows these rates."""
    return max(0.0, math.log((1 - delta - fnr) / fpr), math.log((1 - delta - fpr) / fnr))


def test_bound_without_errors_by_hand() -> None:
    # no error in 100 and 50: the upper limits are 1 - 0.025^(1/100) and 1 - 0.025^(1/50)
    fpr, fnr = 1 - 0.025 ** (1 / 100), 1 - 0.025 ** (1 / 50)
    assert epsilon_lower(0, 100, 0, 50) == pytest.approx(math.log((1 - fnr) / fpr))
    assert epsilon_lower(0, 50, 0, 100) == pytest.approx(math.log((1 - fnr) / fpr))
    with_delta = math.log((0.9 - fnr) / fpr)
    assert epsilon_lower(0, 100, 0, 50, delta=0.1) == pytest.approx(with_delta)


@given(counts, counts, st.floats(0, 0.5), st.sampled_from([0.9, 0.95]))
def test_bound_is_the_larger_ratio_of_limits(alarms, misses, delta, confidence):
    high = (1 + confidence) / 2
    fpr, fnr = (1.0 if k == n else beta_law.ppf(high, k + 1, n - k) for k, n in (alarms, misses))
    odds = max((1 - delta - fnr) / fpr, (1 - delta - fpr) / fnr)
    expected = math.log(odds) if odds > 1 else 0.0
    found = epsilon_lower(*alarms, *misses, delta, confidence)
    assert found == pytest.approx(expected, abs=1e-9)
    assert epsilon_lower(*misses, *alarms, delta, confidence) == pytest.approx(found)


@pytest.mark.parametrize(("n", "m"), [(40, 40), (15, 120), (120, 15)])
def test_true_claims_are_refuted_at_level(n, m):
    """Exact: every pair of counts weighed by its probability."""
    for delta, rates in (
        (0.0, [(0.5, 0.5), (0.1, 0.1), (0.01, 0.7), (0.6, 0.02)]),
        (0.05, [(0.02, 0.02)]),
    ):
        bounds = np.array(
            [[epsilon_lower(i, n, j, m, delta) for j in range(m + 1)] for i in range(n + 1)]
        )
        for fpr, fnr in rates:
            weights = np.outer(binom.pmf(range(n + 1), n, fpr), binom.pmf(range(m + 1), m, fnr))
            wrong = weights[bounds > true_epsilon(fpr, fnr, delta)].sum()
            assert wrong <= 0.05, (delta, fpr, fnr)


def test_many_trainings_come_near_the_truth():
    for epsilon in (0.5, 2.0, 4.0):
        likely = round(200_000 / (1 + math.exp(epsilon)))
        assert epsilon - 0.1 < epsilon_lower(likely, 200_000, likely, 200_000) < epsilon


def test_nothing_shown_is_zero():
    for counts in ((0, 0, 0, 0), (5, 10, 5, 10), (10, 10, 0, 10), (10, 10, 10, 10)):
        assert epsilon_lower(*counts) == 0.0
    assert epsilon_lower(0, 1000, 0, 1000, delta=1.0) == 0.0
