import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import beta as beta_law
from scipy.stats import binom

from audit.statistics.one_run import epsilon_lower, p_value

DELTA = 1e-5
bound = cache(epsilon_lower)
audits = st.integers(1, 120).flatmap(
    lambda m: st.integers(1, m).flatmap(
        lambda r: st.tuples(st.just(m), st.just(r), st.integers(1, r))
    )
)


def written_out(epsilon, m, r, v, delta):
    """The theorem, term by term."""
    law = binom.pmf(range(r + 1), r, 1 / (1 + math.exp(-epsilon)))
    a = max(math.fsum(law[v - i : v]) / i for i in range(1, v + 1))
    return min(1.0, math.fsum(law[v:]) + 2 * m * delta * a)


def test_known_bounds():
    known = {(1000, 200, 190): 2.39362, (1000, 1000, 600): 0.29723, (100, 100, 75): 0.70194}
    for counts, epsilon in known.items():
        assert round(epsilon_lower(*counts, DELTA), 5) == epsilon


@given(audits, st.floats(0, 6), st.sampled_from([0.0, 1e-6, 1e-3, 0.05]))
def test_p_value_is_the_theorem_written_out(audit, epsilon, delta):
    m, r, v = audit
    assert p_value(epsilon, m, r, v, delta) == pytest.approx(
        written_out(epsilon, m, r, v, delta), rel=1e-9
    )


@given(audits, st.sampled_from([0.9, 0.95, 0.99]))
def test_bound_without_delta_is_the_exact_limit(audit, confidence):
    m, r, v = audit
    q = beta_law.ppf(1 - confidence, v, r - v + 1)
    expected = max(0.0, math.log(q / (1 - q)))
    assert epsilon_lower(m, r, v, 0.0, confidence) == pytest.approx(expected, abs=1e-9)


@given(audits, st.sampled_from([0.0, 1e-6, 1e-3, 0.05]), st.sampled_from([0.9, 0.95]))
def test_bound_is_the_supremum_from_below(audit, delta, confidence):
    m, r, v = audit
    epsilon = epsilon_lower(m, r, v, delta, confidence)
    if epsilon > 0:
        assert p_value(epsilon, m, r, v, delta) < 1 - confidence
    assert p_value(epsilon + 2e-12 + 1e-9 * epsilon, m, r, v, delta) >= 1 - confidence - 1e-12


@given(audits, st.floats(0, 8), st.floats(0, 8), st.sampled_from([0.0, 1e-6, 1e-3, 0.05]))
def test_p_value_rises_with_epsilon_and_delta(audit, e1, e2, delta):
    m, r, v = audit
    low, high = sorted((e1, e2))
    assert p_value(low, m, r, v, delta) <= p_value(high, m, r, v, delta) + 1e-12
    assert p_value(low, m, r, v, delta) <= p_value(low, m, r, v, min(1, 2 * delta + 1e-4))
    if p_value(low, m, r, v - 1, delta) < 0.5:
        assert p_value(low, m, r, v, delta) <= p_value(low, m, r, v - 1, delta)


def test_nothing_shown_is_zero():
    for counts in ((10, 0, 0), (10, 10, 0), (10, 10, 5), (1000, 3, 3), (1, 1, 1)):
        assert epsilon_lower(*counts, DELTA) == 0.0
    assert epsilon_lower(1000, 1000, 1000, 0.1) == 0.0  # a large δ leaves nothing
    assert p_value(1.0, 10, 10, 10, 1.0) <= 1.0
    for delta in (0.0, 1e-5):
        assert p_value(math.inf, 50, 40, 40, delta) == 1.0


@pytest.mark.parametrize(("epsilon", "m", "r"), [(1.0, 1000, 1000), (2.0, 400, 60)])
def test_randomised_response_has_its_exact_level(epsilon, m, r):
    """Summed over all outcomes: right guesses are Bin(r, e^ε/(1 + e^ε)) then."""
    law = binom(r, expit(epsilon))
    right = np.arange(law.ppf(1e-9), law.isf(1e-9) + 1).astype(int)
    bounds = np.array([bound(m, r, int(v)) for v in right])
    wrong = right[bounds > epsilon]
    assert law.sf(wrong[0] - 1) <= 0.05 < law.sf(wrong[0] - 2)  # one more outcome would be too many
    assert len(wrong) == right[-1] + 1 - wrong[0]
    sd = 1 / math.sqrt(r * expit(epsilon) * expit(-epsilon))  # of the log odds, in nats
    assert 1.6 <= (epsilon - law.pmf(right) @ bounds) / sd <= 1.7  # 1.645, but for rounding


def test_all_given_away_with_delta_is_no_refutation():
    """The worst case of the theorem, where its factor m delta is needed; summed over outcomes."""
    epsilon, m, delta = 0.5, 40, 0.04
    right = np.arange(m + 1)
    law = (1 - delta) * binom.pmf(right, m, expit(epsilon)) + delta * (right == m)
    honest, naive = (
        np.array([bound(m, m, int(v), d) for v in right]) > epsilon for d in (delta, 0.0)
    )
    assert law @ honest <= 0.05 < law @ naive
