import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

from audit.statistics.betting import mean_lower
from audit.statistics.transcript import STEP, delta_lower, epsilon_lower
from tests.simulations import most, repeats

rows = st.lists(st.floats(-6, 6), min_size=1, max_size=60)


def hoeffding(n, level=0.05):
    return math.sqrt(math.log(1 / level) / (2 * n))


def shuffled(ratios):
    return np.random.default_rng(7).permutation(ratios)


def test_by_hand():
    ratios = shuffled([math.log(4)] * 600 + [-1.0] * 400)
    for epsilon, excess in ((0.0, 0.75), (math.log(2), 0.5)):
        values = np.where(ratios > 0, excess, 0.0)
        assert delta_lower(ratios, epsilon) == pytest.approx(mean_lower(values), abs=1e-8)
        assert 0.6 * excess - hoeffding(1000) < delta_lower(ratios, epsilon) < 0.6 * excess
    assert delta_lower(ratios, math.log(4)) == 0.0
    assert delta_lower(ratios, 0.0) < delta_lower(ratios, 0.0, confidence=0.9)
    # 0.6 (1 - e^ε/4) = δ, with the mean of the excess at its lower bound
    share = mean_lower(np.where(ratios > 0, 1.0, 0.0))
    expected = math.log(4 * (1 - 0.1 / share))
    assert epsilon_lower(ratios, 0.1) == pytest.approx(expected, abs=3 * STEP)


def test_randomised_response_is_bounded_below_and_nearly():
    for epsilon in (1.0, 2.0):
        likely = np.random.default_rng(0).random((8, 4000)) < expit(epsilon)
        found = np.array([epsilon_lower(row, 0.0) for row in np.where(likely, epsilon, -epsilon)])
        assert (found <= epsilon).all()  # at δ = 0 no ratio is above ε
        assert found.min() > epsilon - 0.02


@repeats(100, 2000)
def test_gaussian_releases_are_refuted_at_level(runs):
    mu, epsilon, n = 1.0, 0.5, 400
    truth = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    draw = np.random.default_rng(1)
    ratios = mu**2 / 2 + mu * draw.normal(size=(runs, n))
    over = np.array([delta_lower(row, epsilon) for row in ratios])
    assert np.mean(over > truth) <= most(runs)
    assert truth - 0.6 * hoeffding(n) < over.mean() < truth
    bounds = np.array([epsilon_lower(row, truth) for row in ratios])
    assert np.mean(bounds > epsilon) <= most(runs)
    assert 0.35 < bounds.mean() < epsilon  # by Hoeffding .27


def test_rare_leaks_are_detected_beyond_hoeffding():
    """δ(0) = .02 of 1,000 transcripts: Hoeffding needs .039."""
    draw = np.random.default_rng(3)
    ratios = np.where(draw.random((50, 1000)) < 0.02, 30.0, 0.0)
    found = np.array([delta_lower(row, 0.0) for row in ratios])
    assert 0.008 < found.mean() < 0.02
    assert 0.02 - hoeffding(1000) < 0


@given(rows, st.floats(0, 5), st.floats(0, 0.5))
def test_both_bounds_are_inverse_to_each_other(ratios, epsilon, delta):
    ratios = shuffled(ratios * 40)
    bound = epsilon_lower(ratios, delta)
    if bound > 0:
        for refuted in (0.0, bound / 2 // STEP * STEP, bound):  # and every multiple before it
            assert delta_lower(ratios, refuted) > delta - 1e-8
    assert delta_lower(ratios, bound + STEP) <= delta + 1e-8
    assert delta_lower(ratios, epsilon) >= delta_lower(ratios, epsilon + 0.5) - 0.05


@given(rows, st.floats(0, 0.5))
def test_bound_is_below_the_largest_ratio(ratios, delta):
    ratios = shuffled(ratios * 40)
    bound = epsilon_lower(ratios, delta)
    assert 0.0 <= bound <= max(0.0, *ratios)
    assert epsilon_lower(ratios, delta + 0.05) <= bound


def test_impossible_outcomes_bound_delta():
    ratios = shuffled([math.inf] * 50 + [0.0] * 50)
    assert 0.5 - hoeffding(100) < delta_lower(ratios, 0.0) < 0.5
    assert delta_lower(ratios, math.inf) == delta_lower(ratios, 0.0)
    assert epsilon_lower(ratios, 0.1) == math.inf
    assert epsilon_lower(ratios, 0.6) == 0.0


def test_first_multiple_not_refuted_ends_the_search(monkeypatch):
    """A refutation further on would be one of several tests at full confidence."""
    outcomes = iter([True, True, False, True, True])
    monkeypatch.setattr("audit.statistics.betting.exceeds", lambda *given: next(outcomes))
    assert epsilon_lower([5.0] * 10, 0.1) == STEP
    assert len(list(outcomes)) == 2


def test_few_transcripts_show_nothing():
    assert delta_lower([5.0], 0.0) == 0.0
    assert epsilon_lower([5.0], 0.0) == 0.0
    assert epsilon_lower([0.0] * 1000, 0.0) == 0.0
