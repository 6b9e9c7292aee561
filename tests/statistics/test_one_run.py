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
    w = binom(r, 1 / (1 + math.exp(-epsilon)))
    beta = sum(w.pmf(j) for j in range(v, r + 1))
    a = max(sum(w.pmf(j) for j in range(v - i, v)) / i for i in range(1, v + 1))
    return min(1.0, beta + 2 * m * delta * a)


@pytest.mark.parametrize(
    "m, r, v, epsilon",
    [(1000, 200, 190, 2.39362), (1000, 1000, 600, 0.29723), (100, 100, 75, 0.70194)],
)
def test_known_bounds(m, r, v, epsilon):
    assert round(epsilon_lower(m, r, v, DELTA), 5) == epsilon


@given(audits, st.floats(0, 6), st.sampled_from([0.0, 1e-6, 1e-3, 0.05]))
def test_p_value_is_the_theorem_written_out(audit, epsilon, delta):
    m, r, v = audit
    assert p_value(epsilon, m, r, v, delta) == pytest.approx(
        written_out(epsilon, m, r, v, delta), rel=1e-9
    )


@given(audits, st.sampled_from([0.9, 0.95, 0.99]))
def test_without_delta_it_is_the_exact_one_sided_limit_of_a_rate(audit, confidence):
    m, r, v = audit
    q = beta_law.ppf(1 - confidence, v, r - v + 1)
    expected = max(0.0, math.log(q / (1 - q)))
    assert epsilon_lower(m, r, v, 0.0, confidence) == pytest.approx(expected, abs=1e-9)


@given(audits, st.sampled_from([0.0, 1e-6, 1e-3, 0.05]), st.sampled_from([0.9, 0.95]))
def test_the_bound_is_the_supremum_approached_from_below(audit, delta, confidence):
    m, r, v = audit
    epsilon = epsilon_lower(m, r, v, delta, confidence)
    if epsilon > 0:
        assert p_value(epsilon, m, r, v, delta) < 1 - confidence
    assert p_value(epsilon + 2e-12 + 1e-9 * epsilon, m, r, v, delta) >= 1 - confidence - 1e-12


@given(audits, st.floats(0, 8), st.floats(0, 8), st.sampled_from([0.0, 1e-6, 1e-3, 0.05]))
def test_p_value_rises_with_epsilon_and_delta_and_falls_with_right_guesses(audit, e1, e2, delta):
    m, r, v = audit
    low, high = sorted((e1, e2))
    assert p_value(low, m, r, v, delta) <= p_value(high, m, r, v, delta) + 1e-12
    assert p_value(low, m, r, v, delta) <= p_value(low, m, r, v, min(1, 2 * delta + 1e-4))
    if p_value(low, m, r, v - 1, delta) < 0.5:
        assert p_value(low, m, r, v, delta) <= p_value(low, m, r, v - 1, delta)


@given(audits)
def test_more_coins_only_lower_the_bound_and_more_right_guesses_only_raise_it(audit):
    m, r, v = audit
    assert epsilon_lower(m + 50, r, v, 1e-3) <= epsilon_lower(m, r, v, 1e-3) + 1e-11
    assert epsilon_lower(m, r, v - 1, 1e-3) <= epsilon_lower(m, r, v, 1e-3) + 1e-11


@pytest.mark.parametrize("m, r, v", [(10, 0, 0), (10, 10, 0), (10, 10, 5), (1000, 3, 3), (1, 1, 1)])
def test_nothing_shown_is_zero(m, r, v):
    assert epsilon_lower(m, r, v, DELTA) == 0.0


def test_a_large_delta_leaves_nothing():
    assert epsilon_lower(1000, 1000, 1000, 0.1) == 0.0
    assert p_value(1.0, 10, 10, 10, 1.0) <= 1.0


def test_infinite_epsilon_explains_everything():
    assert p_value(math.inf, 50, 40, 40) == 1.0
    assert p_value(math.inf, 50, 40, 40, 1e-5) == 1.0


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.parametrize("m, r", [(1000, 1000), (400, 60)])
def test_randomised_response_is_bounded_below_and_nearly(epsilon, m, r):
    """Summed over all outcomes: right guesses are Bin(r, e^ε/(1 + e^ε)) then."""
    law = binom(r, expit(epsilon))
    right = np.arange(law.ppf(1e-9), law.isf(1e-9) + 1).astype(int)
    bounds = np.array([bound(m, r, int(v)) for v in right])
    wrong = right[bounds > epsilon]
    assert law.sf(wrong[0] - 1) <= 0.05 < law.sf(wrong[0] - 2)  # one more outcome would be too many
    assert len(wrong) == right[-1] + 1 - wrong[0]
    sd = 1 / math.sqrt(r * expit(epsilon) * expit(-epsilon))  # of the log odds, in nats
    assert 1.6 <= (epsilon - law.pmf(right) @ bounds) / sd <= 1.7  # 1.645, but for rounding


@pytest.mark.parametrize("high, low", [(100, 100), (95, 5), (0, 30), (1, 0)])
def test_scores_with_ties_and_lopsided_guesses_refute_a_true_claim_rarely(high, low):
    """Integer scores (two-sided geometric noise on the coin) are exactly ε-DP and full of ties."""
    epsilon, m, repeats = 1.0, 200, 2500
    draw = np.random.default_rng(high + low)
    coins = draw.integers(0, 2, size=(repeats, m))
    fade = 1 - math.exp(-epsilon)
    noise = draw.geometric(fade, size=(repeats, m)) - draw.geometric(fade, size=(repeats, m))
    order = np.argsort(coins + noise, axis=1, kind="stable")  # ties broken by position
    ranked = np.take_along_axis(coins, order, axis=1)
    right = ranked[:, m - high :].sum(axis=1) + (1 - ranked[:, :low]).sum(axis=1)
    bounds = np.array([bound(m, high + low, int(v)) for v in right])
    assert np.mean(bounds > epsilon) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)
    if (high, low) == (95, 5):
        assert bounds.mean() > 0.4  # and it does find something


def test_a_release_that_gives_units_away_with_probability_delta_is_not_refuted():
    epsilon, delta, m, repeats = 1.0, 0.1, 300, 3000
    draw = np.random.default_rng(3)
    given_away = draw.binomial(m, delta, size=repeats)
    right = given_away + draw.binomial(m - given_away, expit(epsilon))
    with_delta = np.array([bound(m, m, int(v), 1e-4) for v in right])
    honest = np.array([bound(m, m, int(v), delta) for v in right])
    assert np.mean(honest > epsilon) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)
    assert np.mean(with_delta > epsilon) > 0.15  # the same release refutes a smaller delta


def test_a_release_that_gives_everything_away_with_probability_delta_is_not_refuted():
    """The worst case of the theorem, where its factor m delta is needed."""
    epsilon, m, repeats = 0.5, 40, 4000
    delta = 0.04
    draw = np.random.default_rng(4)
    right = np.where(
        draw.random(repeats) < delta, m, draw.binomial(m, expit(epsilon), size=repeats)
    )
    honest = np.array([bound(m, m, int(v), delta) for v in right])
    naive = np.array([bound(m, m, int(v), 0.0) for v in right])
    assert np.mean(honest > epsilon) <= 0.05
    assert np.mean(naive > epsilon) > 0.05


@pytest.mark.parametrize(
    "m, r, v, delta",
    [(5, 6, 1, 0.0), (5, 4, 5, 0.0), (5, 4, -1, 0.0), (5, 4, 3, -0.1), (5, 4, 3, math.nan)],
)
def test_bad_counts_are_refused(m, r, v, delta):
    with pytest.raises(ValueError):
        epsilon_lower(m, r, v, delta)
    with pytest.raises(ValueError):
        p_value(1.0, m, r, v, delta)


def test_bad_epsilon_and_confidence_are_refused():
    for epsilon in (-0.1, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            p_value(epsilon, 5, 4, 3)
    for confidence in (0.5, 1.0, math.nan):
        with pytest.raises(ValueError, match="confidence"):
            epsilon_lower(5, 4, 3, confidence=confidence)
