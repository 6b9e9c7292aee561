import math
import warnings

import dp_accounting
import mpmath
import pytest
from dp_accounting import pld
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from audit.accounting import Gaussians, Mechanism, epsilon, hidden_states, moments

QUICK = 2e-3  # tolerance of ε where four decimals are not the point


def of(terms, delta, relation="add_or_remove", **kwargs):
    terms = (terms,) if isinstance(terms, Gaussians) else tuple(terms)
    return epsilon(Mechanism(terms, relation), delta, **kwargs)


def gaussian(mu, delta):
    """The analytic Gaussian mechanism, written out in probabilities."""

    def excess(e):
        return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta

    return brentq(excess, 0, 50, xtol=1e-13)


# section 4 of the methods: (q, σ, T), add-or-remove, moments accountant, replace; δ = 1e-5
KNOWN = [
    (Gaussians(1.0, 1000, 0.01), 1.8282, 2.1014, 2.8434),
    (Gaussians(1.1, 500, 0.02), 2.2932, 2.5757, 3.6646),
]


def test_known_values():
    for term, add_or_remove, published, replace in KNOWN:
        assert round(of(term, 1e-5), 4) == add_or_remove < published
        assert round(of(term, 1e-5, "replace"), 4) == replace
        assert round(moments(Mechanism((term,), "add_or_remove"), 1e-5), 4) == published


def test_a_central_limit_is_below_the_truth_and_never_the_answer():
    mu = 0.01 * math.sqrt(1000 * math.expm1(1.0))  # Bu et al. 2020, T → ∞
    assert gaussian(mu, 1e-5) == pytest.approx(1.6177, abs=5e-5)
    assert of(Gaussians(1.0, 1000, 0.01), 1e-5, tolerance=QUICK) > 1.82


def test_moments_refuse_what_they_would_get_wrong():
    with pytest.raises(ValueError, match="add_or_remove"):
        moments(Mechanism((Gaussians(1.0, 10, 0.1),), "replace"), 1e-5)
    with pytest.raises(ValueError, match="several records"):
        moments(Mechanism((Gaussians(1.0, 10, 0.1, records=2),), "add_or_remove"), 1e-5)


# Without sampling: closed forms


@pytest.mark.parametrize("sigma, count, delta", [(1.0, 1, 1e-5), (4.0, 30, 1e-6), (60.0, 7, 0.01)])
def test_unsampled_releases_are_one_gaussian(sigma, count, delta):
    mu = math.sqrt(count) / sigma
    assert of(Gaussians(sigma, count), delta) == pytest.approx(gaussian(mu, delta), rel=1e-8)
    assert of(Gaussians(sigma, count), delta, "replace") == pytest.approx(
        gaussian(2 * mu, delta), rel=1e-8
    )
    library = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
    assert of(Gaussians(sigma, count), delta) == pytest.approx(library, rel=1e-8)


def test_unsampled_terms_add_their_squares():
    terms = Gaussians(2.0, 3), Gaussians(5.0, 11), Gaussians(7.0, 2, records=3)
    mu = math.sqrt(3 / 4 + 11 / 25 + 2 * 9 / 49)
    assert of(terms, 1e-5) == pytest.approx(gaussian(mu, 1e-5), rel=1e-8)


@pytest.mark.parametrize("mu", [1e-7, 1e-3, 1.0, 24.33, 6324.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 0.3])
def test_the_closed_form_holds_at_both_ends_of_the_scale(mu, delta):
    """Against 60 digits: δ(ε) is allowed, and just below ε it is not."""

    def exact(e):
        with mpmath.workdps(60):
            e, m = mpmath.mpf(e), mpmath.mpf(mu)
            return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)

    found = of(Gaussians(1 / mu, 1), delta)
    assert exact(found) <= delta
    assert found == 0 or exact(found * (1 - 1e-6)) > delta


def test_the_selective_dp_setting_is_not_what_was_published():
    """37 unamplified releases at σ = 0.5, δ = 8e-5 (section 5 of the methods); published: 4.91."""
    gradients = Gaussians(0.5, 37)
    assert of(gradients, 8e-5, "replace") == pytest.approx(387, abs=0.5)
    assert of((gradients, hidden_states(0.5, 37)), 8e-5, "replace") >= 1046
    assert of((gradients, hidden_states(0.5, 37)), 8e-5, "replace") == pytest.approx(1046, abs=1)


def by_hand(relation, *events, interval=1e-3):
    accountant = pld.PLDAccountant(relation, interval)
    for event, count in events:
        accountant.compose(event, count)
    return accountant.get_epsilon(1e-5)


def test_hidden_states_are_doubled_once():
    """μ² = 8n/σ²: the library's REPLACE_ONE doubles, and h and c are two releases."""
    n, sigma, relation = 3, 8.0, dp_accounting.NeighboringRelation.REPLACE_ONE
    mu = math.sqrt(8 * n) / sigma
    found = of(hidden_states(sigma, n), 1e-5, "replace")
    assert found == pytest.approx(gaussian(mu, 1e-5), rel=1e-8)
    library = by_hand(relation, (dp_accounting.GaussianDpEvent(sigma), 2 * n))
    assert found == pytest.approx(library, rel=1e-3) and found <= library * (1 + 1e-8)
    doubled_twice = by_hand(relation, (dp_accounting.GaussianDpEvent(1 / mu), 1))
    assert doubled_twice > 1.9 * found


def test_sampled_and_unsampled_terms_are_composed_in_one_pld():
    gradients, states = Gaussians(1.0, 200, 0.05), hidden_states(8.0, 3)
    together = of((gradients, states), 1e-5, "replace", tolerance=QUICK)
    library = by_hand(
        dp_accounting.NeighboringRelation.REPLACE_ONE,
        (dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(1.0)), 200),
        (dp_accounting.GaussianDpEvent(8.0), 6),
        interval=5e-4,
    )
    assert together == pytest.approx(library, rel=QUICK)
    alone = [of(term, 1e-5, "replace", tolerance=QUICK) for term in (gradients, states)]
    assert max(alone) + 0.5 < together < sum(alone) - 0.5


# Extremes


@pytest.mark.parametrize("relation", ["add_or_remove", "replace"])
def test_zero_and_infinity(relation):
    for q, least in ((0.0, 0.0), (0.1, math.inf), (1.0, math.inf)):
        term = Gaussians(1.0, 10, q)
        assert of(term, 0.0, relation) == of(Gaussians(0.0, 10, q), 1e-5, relation) == least
        assert of(Gaussians(1.0, 0, q), 1e-5, relation) == of(term, 1.0, relation) == 0.0
        assert of((Gaussians(0.0, 1), term), 1e-5, relation) == math.inf
    assert of((), 1e-5, relation) == 0.0


@pytest.mark.parametrize("relation", ["add_or_remove", "replace"])
@pytest.mark.parametrize("sigma, count", [(0.05, 1), (0.05, 10**5), (1.0, 10**5), (300.0, 10**5)])
@pytest.mark.parametrize(
    "q, delta",
    [
        (1e-4, 1e-12),
        (1 - 1e-9, 1e-9),
        *(pytest.param(q, 1e-5, marks=pytest.mark.calibration) for q in (1e-9, 0.5)),
    ],
)
def test_extreme_parameters_have_finite_answers(relation, sigma, count, q, delta):
    """Neither NaN nor a warning nor an error, and never above what no amplification gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = of(Gaussians(sigma, count, q), delta, relation, tolerance=0.05)
    assert 0.0 <= found <= of(Gaussians(sigma, count), delta, relation)
    if 1 - (1 - q) ** count > 2 * delta and sigma < 1:  # the record was in it, and it shows
        assert found > 1.0


def test_many_releases_at_a_tiny_delta_are_not_understated():
    """The library's convolutions lose about 1e-16 of δ a release, which here is all there is.

    At q = 1 - 1e-9 the truth is the closed form to nine digits.
    """
    sigma, count, q, delta = 300.0, 10**5, 1 - 1e-9, 1e-11
    truth = of(Gaussians(sigma, count), delta)
    assert of(Gaussians(sigma, count, q), delta) >= truth * (1 - 1e-6)


def test_parameters_are_checked():
    for wrong in (
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": math.inf},
        {"count": -1},
        {"sampling_probability": 1.1},
        {"records": -1},
    ):
        with pytest.raises(ValueError):
            Gaussians(**{"noise_multiplier": 1.0, "count": 1, **wrong})
    with pytest.raises(ValueError, match="relation"):
        Mechanism((), "REPLACE_ONE")
    with pytest.raises(ValueError, match="several records"):
        Mechanism((Gaussians(1.0, 1, 0.5, records=2),), "replace")
    for delta in (-1e-9, 1.1, math.nan):
        with pytest.raises(ValueError, match="delta"):
            of(Gaussians(1.0, 1), delta)


# Properties

terms = st.builds(
    Gaussians,
    st.floats(0.4, 8),
    st.integers(1, 300),
    st.sampled_from([0.003, 0.02, 0.2, 0.7, 1.0]),
)
deltas = st.sampled_from([1e-8, 1e-5, 1e-3])
relations = st.sampled_from(["add_or_remove", "replace"])


@pytest.mark.calibration  # the library and the closed forms are compared above
@settings(max_examples=12)
@given(terms, deltas, relations)
def test_less_noise_more_steps_more_sampling_and_less_delta_cost_more(term, delta, relation):
    sigma, count, q = term.noise_multiplier, term.count, term.sampling_probability
    start = of(term, delta, relation, tolerance=QUICK)
    slack = QUICK * max(1.0, start)
    for dearer in (
        of(Gaussians(sigma / 1.3, count, q), delta, relation, tolerance=QUICK),
        of(Gaussians(sigma, 2 * count, q), delta, relation, tolerance=QUICK),
        of(Gaussians(sigma, count, min(1.0, 1.5 * q)), delta, relation, tolerance=QUICK),
        of(term, delta / 10, relation, tolerance=QUICK),
    ):
        assert dearer >= start - slack


@settings(max_examples=12)
@given(terms, deltas)
def test_replace_costs_more_than_add_or_remove_and_less_than_both_after_each_other(term, delta):
    single = of(term, delta, tolerance=QUICK)
    double = of(term, delta, "replace", tolerance=QUICK)
    assume(math.isfinite(double))
    assert double >= single * (1 - QUICK)
    grown = (1 + math.exp(min(single, 700.0))) * delta  # (2ε, (1 + e^ε)δ)
    if grown < 1:
        found = of(term, grown, "replace", tolerance=QUICK)
        assert found <= 2 * single + QUICK * max(1.0, found)
