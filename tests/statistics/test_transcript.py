import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

from audit.statistics.transcript import delta_lower, epsilon_lower

rows = st.lists(st.floats(-6, 6), min_size=1, max_size=60)


def slack(n, level=0.05):
    return math.sqrt(math.log(1 / level) / (2 * n))


def test_by_hand():
    ratios = [math.log(4)] * 600 + [-1.0] * 400
    assert delta_lower(ratios, 0.0) == pytest.approx(0.6 * 0.75 - slack(1000))
    assert delta_lower(ratios, math.log(2)) == pytest.approx(0.6 * 0.5 - slack(1000))
    assert delta_lower(ratios, math.log(4)) == 0.0
    assert delta_lower(ratios, 0.0, confidence=0.9) == pytest.approx(0.45 - slack(1000, 0.1))
    # 0.6 (1 - e^ε/4) = δ + slack
    expected = math.log(4 * (1 - (0.1 + slack(1000)) / 0.6))
    assert epsilon_lower(ratios, 0.1) == pytest.approx(expected)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_randomised_response_is_bounded_below_and_nearly(epsilon):
    draw = np.random.default_rng(0)
    repeats, n = 2000, 4000
    drawn = draw.binomial(n, expit(epsilon), size=repeats).tolist()
    bounds = {k: epsilon_lower([epsilon] * k + [-epsilon] * (n - k), 0.0) for k in set(drawn)}
    found = np.array([bounds[k] for k in drawn])
    assert np.mean(found > epsilon) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)
    assert found.min() > epsilon - 0.05


def test_a_gaussian_release_is_refuted_at_most_one_time_in_twenty():
    mu, epsilon, n, repeats = 1.0, 0.5, 400, 2000
    truth = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    draw = np.random.default_rng(1)
    ratios = mu**2 / 2 + mu * draw.normal(size=(repeats, n))
    over = np.array([delta_lower(row, epsilon) for row in ratios])
    assert np.mean(over > truth) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)
    assert over.mean() == pytest.approx(truth - slack(n), abs=0.005)
    bounds = np.array([epsilon_lower(row, truth) for row in ratios[:400]])
    assert np.mean(bounds > epsilon) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert 0.2 < bounds.mean() < epsilon


@given(rows, st.floats(0, 5), st.floats(0, 0.5))
def test_the_two_bounds_are_inverse_to_each_other(ratios, epsilon, delta):
    ratios = ratios * 40
    bound = epsilon_lower(ratios, delta)
    if bound > 0:
        assert delta_lower(ratios, bound) > delta - 1e-12
    assert delta_lower(ratios, bound + 1e-9) <= delta + 1e-9
    assert delta_lower(ratios, epsilon) >= delta_lower(ratios, epsilon + 0.1)


@given(rows, st.floats(0, 0.5))
def test_never_beyond_the_largest_ratio_and_less_for_more_delta(ratios, delta):
    ratios = ratios * 40
    bound = epsilon_lower(ratios, delta)
    assert 0.0 <= bound <= max(0.0, *ratios)
    assert epsilon_lower(ratios, delta + 0.05) <= bound


def test_outcomes_impossible_without_the_unit():
    ratios = [math.inf] * 50 + [0.0] * 50
    assert delta_lower(ratios, 0.0) == pytest.approx(0.5 - slack(100))
    assert delta_lower(ratios, math.inf) == pytest.approx(0.5 - slack(100))
    assert epsilon_lower(ratios, 0.1) == math.inf
    assert epsilon_lower(ratios, 0.6) == 0.0


def test_few_transcripts_show_nothing():
    assert delta_lower([5.0], 0.0) == 0.0
    assert epsilon_lower([5.0], 0.0) == 0.0
    assert epsilon_lower([0.0] * 1000, 0.0) == 0.0


@pytest.mark.parametrize("ratios", [[], [[1.0]], [math.nan], [-math.inf]])
def test_bad_transcripts_are_refused(ratios):
    with pytest.raises(ValueError):
        delta_lower(ratios, 1.0)
    with pytest.raises(ValueError):
        epsilon_lower(ratios, 0.1)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="epsilon"):
        delta_lower([1.0], -1.0)
    with pytest.raises(ValueError, match="delta"):
        epsilon_lower([1.0], 1.5)
    with pytest.raises(ValueError, match="confidence"):
        delta_lower([1.0], 1.0, 1.0)
