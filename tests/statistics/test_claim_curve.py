"""Trade-off curves: oracles, closed forms, level."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from audit.statistics.claim_curve import EPSILONS, Curve, gaussian, p_value


def pure(epsilon, delta=0.0):
    """The curve of (ε, δ)-DP and of nothing else."""
    return Curve(np.array([epsilon]), np.array([delta]))


@pytest.mark.parametrize(
    ("mu", "m", "r", "v", "oracle"),
    [(1, 120, 80, 78, 0.01807), (1, 500, 332, 312, 0.04709), (1, 50, 32, 32, 0.02366)],
)
def test_p_values_of_a_gaussian_claim(mu, m, r, v, oracle):
    assert p_value(gaussian(mu), m, r, v) == pytest.approx(oracle, rel=2e-3)


def test_the_curve_of_a_gaussian_is_its_closed_form():
    curve = gaussian(1.0)
    for w in np.linspace(0.001, 0.999, 50):
        exact = 1.0 - norm.cdf(norm.ppf(1.0 - w) - 1.0)
        assert exact - 1e-9 <= curve.above(w) <= exact + 2e-4


@given(st.floats(0.05, 3.0), st.floats(0.0, 1.0), st.floats(0.0, 3.0), st.floats(0.0, 0.3))
def test_the_inverse_is_the_least_w(mu, y, epsilon, delta):
    for curve in (gaussian(mu), pure(epsilon, delta)):
        w = curve.inverse(y)
        assert curve.above(w) >= y - 1e-9
        if w > 1e-6:
            assert curve.above(w * (1 - 1e-6) - 1e-9) <= y + 1e-9


def test_one_coin_is_the_best_guess():
    """With one coin and one guess P[right] is at most e^ε/(1+e^ε) (+ δ)."""
    for epsilon in (0.0, 0.5, 2.0):
        best = math.exp(epsilon) / (1 + math.exp(epsilon))
        assert p_value(pure(epsilon), 1, 1, 1) == pytest.approx(best, abs=1e-6)


def test_randomised_response_is_at_its_level():
    """Independent coins answered at e^ε/(1+e^ε) are the worst case: p is their binomial tail."""
    epsilon, m = 1.0, 40
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    for v in range(25, 41):
        tail = binom.sf(v - 1, m, q)
        assert tail - 1e-9 <= p_value(pure(epsilon), m, m, v) <= 2.5 * tail + 1e-9
    rejected = [v for v in range(m + 1) if p_value(pure(epsilon), m, m, v) <= 0.05]
    assert 0.001 < binom.sf(min(rejected) - 1, m, q) <= 0.05


def laws(m, curve, steps=12):
    """All laws of a release about one or two coins on a coarse grid that fulfil the curve."""
    grid = np.linspace(0.0, 1.0, steps + 1)
    for given_in, given_out in itertools.product(grid, grid):
        if given_in <= curve.above(given_out) + 1e-12 and 1 - given_out <= (
            curve.above(1 - given_in) + 1e-12
        ):
            yield given_in, given_out


@pytest.mark.parametrize("curve", [gaussian(1.0), pure(0.7, 0.05)])
def test_no_law_of_one_coin_is_above_p(curve):
    """P[right] = (P(say in | in) + P(say out | out)) / 2 for every law that the claim allows."""
    worst = max((a + 1 - b) / 2 for a, b in laws(1, curve))
    assert worst <= p_value(curve, 1, 1, 1) + 1e-9
    assert p_value(curve, 1, 1, 1) <= worst + 0.05


@settings(max_examples=30)
@given(st.integers(1, 60), st.data())
def test_more_right_guesses_and_smaller_claims_are_less_probable(m, data):
    r = data.draw(st.integers(1, m))
    v = data.draw(st.integers(0, r - 1))
    curve = gaussian(0.8)
    assert p_value(curve, m, r, v + 1) <= p_value(curve, m, r, v) + 1e-9
    assert p_value(gaussian(0.5), m, r, v + 1) <= p_value(curve, m, r, v + 1) + 1e-7


def test_shared_luck_is_not_refuted():
    """Every coin at accuracy .81 with probability .4, else .5: each is 1-GDP, not independent."""
    draws, curve = np.random.default_rng(0), gaussian(1.0)
    critical = next(v for v in range(81) if p_value(curve, 120, 80, v) <= 0.05)
    accuracy = np.where(draws.random(4000) < 0.4, 0.81, 0.5)
    assert (draws.binomial(80, accuracy) >= critical).mean() <= 0.05


def test_a_lie_is_refuted():
    """All of 80 guesses right under a claim of μ = 1, at the default size."""
    assert p_value(gaussian(1.0), 120, 80, 80) < 0.005


@pytest.mark.parametrize("counts", [(0, 0, 0), (5, 6, 1), (5, 3, 4), (5, 3, -1)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(ValueError, match="guesses must satisfy"):
        p_value(gaussian(1.0), *counts)


def test_impossible_curves_are_refused():
    for epsilons, deltas in ((EPSILONS, EPSILONS[:3]), (-EPSILONS, EPSILONS)):
        with pytest.raises(ValueError, match="curve"):
            Curve(epsilons, deltas)
    for mu in (0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="mu must be"):
            gaussian(mu)
