"""Trade-off curves: oracles, closed forms, linear programmes, level."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm

from audit.statistics import one_run
from audit.statistics.claim_curve import Curve, gaussian, is_refuted, p_value
from tests.oracles.claim_programmes import over_laws, over_mechanisms


def pure(epsilon, delta=0.0):
    """The curve of (ε, δ)-DP and of nothing else."""
    return Curve(np.array([epsilon]), np.array([delta]))


def test_p_values_of_gaussian_claims_match_oracles():
    for mu, *counts, oracle in (
        (1, 120, 80, 78, 0.01807),
        (1, 500, 332, 312, 0.04709),
        (1, 50, 32, 32, 0.02366),
    ):
        assert p_value(gaussian(mu), *counts) == pytest.approx(oracle, rel=2e-3)


def test_gaussian_curve_is_its_closed_form():
    curve = gaussian(1.0)
    for w in np.linspace(0.001, 0.999, 50):
        exact = 1.0 - norm.cdf(norm.ppf(1.0 - w) - 1.0)
        assert exact - 1e-9 <= curve.above(w) <= exact + 2e-4


@given(st.floats(0.05, 8.0), st.floats(0.0, 1.0), st.floats(0.0, 3.0), st.floats(0.0, 0.3))
def test_inverse_is_the_largest_line(mu, y, epsilon, delta):
    two = Curve(np.array([epsilon, epsilon + 0.5]), np.array([delta, 0.4 * delta]))
    for curve in (gaussian(mu), pure(epsilon, delta), two):
        e = np.exp(curve.epsilons)
        rise, fall = (y - curve.deltas) / e, 1.0 - curve.deltas - e * (1.0 - y)
        largest = max(0.0, rise.max(), fall.max())
        rounding = 1e-15 * e.max()  # of 1 - y, in the steepest line
        assert largest - rounding <= curve.inverse(y) <= largest + 1e-15
    assert pure(2.0).inverse(1e-20) == pytest.approx(math.exp(-2.0) * 1e-20, rel=1e-12)


@given(st.floats(0.05, 3.0), st.floats(0.0, 0.4))
def test_advantage_is_delta_at_zero(mu, delta):
    assert gaussian(mu).advantage == pytest.approx(2.0 * norm.cdf(mu / 2.0) - 1.0, abs=1e-9)
    assert pure(0.0, delta).advantage == pytest.approx(delta, abs=1e-12)
    assert pure(1.0).advantage == pytest.approx(math.tanh(0.5), rel=1e-12)


def test_one_coin_has_the_best_guess():
    """With one coin and one guess P[right] is at most e^ε/(1+e^ε)."""
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


# the linear programmes


def test_p_is_the_most_any_law_allows():
    for mu, *counts in ((1, 20, 12, 11), (0.5, 30, 30, 22), (2, 50, 16, 16)):
        whole = gaussian(mu)
        few = Curve(whole.epsilons[:120:4], whole.deltas[:120:4])
        most = over_laws(few.epsilons, few.deltas, *counts)
        assert p_value(few, *counts) == pytest.approx(most, rel=1e-6), counts


@st.composite
def claims(draw):
    """(ε, δ of removing, δ of adding) at one to three ε, and (m, r, v) of up to three coins.

    To four digits: a solver of linear programmes takes 1e-7 for nothing.
    """
    size = draw(st.integers(1, 3))
    drawn = st.lists(st.floats(0, 1.5).map(lambda x: round(x, 4)), min_size=size, max_size=size)
    epsilons = np.array(sorted(draw(drawn)))
    some = st.floats(0, 0.4).map(lambda x: round(x, 4))
    deltas = st.lists(some, min_size=size, max_size=size)
    removed, added = (np.array(sorted(draw(deltas), reverse=True)) for _ in range(2))
    m = draw(st.integers(1, 3))
    r = draw(st.integers(1, m))
    return (epsilons, removed, added), (m, r, draw(st.integers(1, r)))


@settings(max_examples=25)
@given(claims())
def test_no_mechanism_of_few_coins_exceeds_p(claim):
    (epsilons, removed, added), counts = claim
    most = over_mechanisms(epsilons, removed, added, *counts)
    assert most <= p_value(Curve(epsilons, (removed + added) / 2), *counts) + 1e-7


@settings(max_examples=20)
@given(claims(), st.booleans())
def test_some_mechanism_of_few_coins_reaches_p(claim, all_right):
    """Where removing and adding are alike, and all guesses or at least one must be right."""
    (epsilons, deltas, _), (m, r, _) = claim
    counts = m, r, r if all_right else 1
    most = over_mechanisms(epsilons, deltas, deltas, *counts)
    p = p_value(Curve(epsilons, deltas), *counts)
    assert most == pytest.approx(p, abs=1e-6) or (p == 1.0 and not all_right)


def test_four_coins_too():
    claim = np.array([0.3, 0.9]), np.array([0.12, 0.03]), np.array([0.12, 0.03])
    most = over_mechanisms(*claim, 4, 4, 4)
    assert p_value(Curve(*claim[:2]), 4, 4, 4) == pytest.approx(most, rel=1e-6)


# level and power


def least(curve, m, r):
    """The critical number of right guesses at 5 %."""
    return next(v for v in range(r + 1) if is_refuted(curve, m, r, v, 0.05))


def test_shared_luck_is_not_refuted():
    """Every coin at accuracy .81 with probability .4, else .5: each is 1-GDP, not independent.

    A test that takes coins for independent is wrong far above its 5 %.
    """
    for m, r, wrong in ((120, 80, 0.08), (500, 332, 0.25)):
        draws = np.random.default_rng(0)
        right = draws.binomial(r, np.where(draws.random(2000) < 0.4, 0.81, 0.5))
        assert not (right >= least(gaussian(1.0), m, r)).any()
        scores = draws.normal(0.5, 1.0, (2000, m))
        surest = np.argsort(-abs(scores), axis=1)[:, :r]
        independent = (np.take_along_axis(scores, surest, axis=1) > 0).sum(axis=1)
        assert (right > np.quantile(independent, 0.95)).mean() > wrong


def test_one_pair_has_the_critical_values_of_one_run():
    for m, r, v in ((120, 80, 76), (500, 332, 303)):
        assert least(pure(2.0, 1e-5), m, r) == v
        assert one_run.p_value(2.0, m, r, v, 1e-5) < 0.05 <= one_run.p_value(2.0, m, r, v - 1, 1e-5)


def test_a_gaussian_curve_wrongly_refutes_randomised_response():
    """Randomised response is (2, 0)-DP, and not Gaussian: so ε and δ are tested by their lines."""

    def delta(mu):
        return norm.cdf(mu / 2 - 2.0 / mu) - math.exp(2.0) * norm.cdf(-mu / 2 - 2.0 / mu)

    mu = brentq(lambda mu: delta(mu) - 1e-5, 0.01, 3.0)
    accuracy = math.exp(2.0) / (1.0 + math.exp(2.0))
    for m, r, wrong in ((120, 80, 0.97), (500, 332, 0.999)):
        assert binom.sf(least(gaussian(mu), m, r) - 1, r, accuracy) > wrong
        assert binom.sf(least(pure(2.0, 1e-5), m, r) - 1, r, accuracy) <= 0.05


def test_refutation_in_one_step_follows_the_p_value():
    curve = gaussian(1.0)
    for right in range(60, 81):
        p = p_value(curve, 120, 80, right)
        for level in (0.05, 0.005, 1e-6):
            assert is_refuted(curve, 120, 80, right, level) == (p < level)
    assert is_refuted(curve, 120, 80, 78, 0.0181) and not is_refuted(curve, 120, 80, 78, 0.0180)
