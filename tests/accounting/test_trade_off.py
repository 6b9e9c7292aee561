"""Curves of mechanisms: closed forms, the reviewed values, level on simulated trainings."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from audit.accounting import Gaussians, Mechanism, curve_of, sigma_upper, with_noise
from audit.accounting.pld import deltas
from audit.statistics.claim_curve import EPSILONS, gaussian, p_value
from audit.statistics.claim_guesses import guess_count
from tests.simulations import repeats

ZERO = np.array([0.0])
FEW = slice(None, 240, 12)


def dp_sgd(sigma, q, steps, records=1, relation="add_or_remove"):
    return Mechanism((Gaussians(sigma, steps, q, records),), relation)


# δ


def of_one_step(sigma, weights):
    """The mean of both profiles of one release at FEW, weights: (n + 1,) of N(k, σ²)."""
    k, e = np.arange(len(weights)), np.exp(EPSILONS[FEW])

    def likelihood(x):
        return np.exp((2 * k * x - k * k) / (2 * sigma**2)) @ weights

    def crossing(level):
        low, high = -60 * sigma - 60, 60 * sigma + 60
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if likelihood(middle) < level else (low, middle)
        return low

    removed, added = [], []
    for growth in e:
        x = crossing(growth)
        removed.append(weights @ norm.sf(x, k, sigma) - growth * norm.sf(x, 0, sigma))
        y = crossing(1 / growth) if weights[0] < 1 / growth else -math.inf
        added.append(norm.cdf(y, 0, sigma) - growth * (weights @ norm.cdf(y, k, sigma)))
    return (np.maximum(removed, 0.0) + np.maximum(added, 0.0)) / 2


@settings(max_examples=5)
@given(st.floats(0.3, 8.0), st.floats(1e-4, 0.95))
def test_one_sampled_release_is_its_closed_form(sigma, q):
    above = curve_of(dp_sgd(sigma, q, 1)).deltas[FEW] - of_one_step(sigma, np.array([1 - q, q]))
    assert above.min() >= 0.0
    assert above.max() < 2e-6


def test_several_records_are_a_mixture():
    exact = of_one_step(1.5, binom.pmf(range(4), 3, 0.2))
    above = curve_of(dp_sgd(1.5, 0.2, 1, records=3), points=4e4).deltas[FEW] - exact
    assert above.min() >= 0.0
    assert above.max() < 1e-5


@pytest.mark.parametrize(("sigma", "q"), [(0.8, 0.1), (1.5, 0.5)])
def test_two_releases_are_their_integral(sigma, q):
    x, h = np.linspace(-12 * sigma, 1 + 12 * sigma, 1401, retstep=True)
    absent = norm.pdf(x, 0, sigma) * h
    present = (1 - q) * absent + q * norm.pdf(x, 1, sigma) * h
    p, r = np.outer(present, present), np.outer(absent, absent)
    found = curve_of(dp_sgd(sigma, q, 2)).deltas
    for k in (0, 10, 40, 80):
        e = math.exp(EPSILONS[k])
        exact = (np.maximum(p - e * r, 0).sum() + np.maximum(r - e * p, 0).sum()) / 2
        assert exact - 1e-9 <= found[k] <= exact + 1e-4 * exact + 2e-7


def test_the_reviewed_advantages():
    """δ̄(0) at three intervals; a finer one lowers it."""
    mechanism = dp_sgd(1.0, 0.01, 1000)
    found = [float(np.mean(deltas(mechanism, ZERO, h))) for h in (1e-2, 1e-3, 2e-4)]
    assert found == pytest.approx([0.16927, 0.16110, 0.16102], abs=6e-6)
    assert curve_of(mechanism).advantage == pytest.approx(0.16110, abs=6e-6)


def test_the_slack_covers_what_rounding_and_cut_tails_take_away():
    curve = curve_of(dp_sgd(1.0, 0.01, 1000))
    computed = np.maximum(0.0, np.mean(deltas(dp_sgd(1.0, 0.01, 1000), EPSILONS, 1e-3), axis=0))
    amplified = curve.deltas < gaussian(math.sqrt(1000)).deltas
    assert (curve.deltas - computed)[amplified].min() >= 1e-7
    assert curve.deltas[-1] >= 1e-7  # nothing is ever impossible


def test_under_replace_both_profiles_are_the_same_and_larger():
    removed, added = deltas(dp_sgd(1.0, 0.01, 1000, relation="replace"), EPSILONS, 1e-3)
    assert (removed == added).all()
    for mechanism in (dp_sgd(1.0, 0.01, 1000), dp_sgd(2.0, 1.0, 9)):
        other = Mechanism(mechanism.terms, "replace")
        assert (curve_of(other).deltas[:60] > curve_of(mechanism).deltas[:60]).all()


@given(st.floats(0.5, 20.0), st.integers(1, 40), st.integers(1, 5))
def test_without_sampling_it_is_one_gaussian(sigma, count, records):
    terms = (Gaussians(sigma, count, 1.0, records), Gaussians(2 * sigma, 3))
    for relation, distance in (("add_or_remove", 1.0), ("replace", 2.0)):
        mu = distance * math.sqrt(records**2 * count + 3 / 4) / sigma
        found, exact = curve_of(Mechanism(terms, relation)), gaussian(mu)
        assert found.deltas == pytest.approx(exact.deltas, rel=1e-9, abs=2e-14)


def test_terms_add_up():
    one, other = Gaussians(1.0, 200, 0.05), Gaussians(8.0, 3)
    both = curve_of(Mechanism((one, other), "replace")).deltas
    for alone in ((one,), (other,)):
        assert (both[:80] > curve_of(Mechanism(alone, "replace")).deltas[:80]).all()
    nothing = (Gaussians(1.0, 0), Gaussians(1.0, 5, 0.0))
    assert (curve_of(Mechanism((one, other, *nothing), "replace")).deltas == both).all()


@pytest.mark.parametrize(
    "mechanism",
    [
        dp_sgd(1.0, 0.01, 1000),
        pytest.param(dp_sgd(0.3, 0.5, 1000), marks=pytest.mark.full),
        pytest.param(dp_sgd(30.0, 0.01, 10**6), marks=pytest.mark.calibration),
        dp_sgd(4.0, 0.001, 10**5),
        pytest.param(dp_sgd(1.0, 1e-4, 10**4), marks=pytest.mark.full),
        pytest.param(dp_sgd(1.0, 0.01, 1000, records=16), marks=pytest.mark.full),
        pytest.param(dp_sgd(1.0, 0.5, 100, records=500), marks=pytest.mark.full),
    ],
    ids=str,
)
def test_wide_long_and_narrow_mechanisms_take_seconds(mechanism):
    start = time.process_time()
    curve = curve_of.__wrapped__(mechanism)
    assert time.process_time() - start < 6.0  # two on an idle core
    assert (np.diff(curve.deltas) <= 1e-10).all()
    coarse = curve_of.__wrapped__(mechanism, points=2e4).deltas
    assert (coarse >= curve.deltas - 1e-7).all()


def test_fewer_points_give_a_larger_delta():
    mechanism = dp_sgd(2.0, 0.05, 300)
    few, many = (curve_of(mechanism, points).deltas for points in (2e3, 4e5))
    assert (few >= many - 1e-12).all() and few[0] > many[0] + 1e-5


def test_narrow_losses_get_a_finer_grid():
    """At an interval of .001 the loss of one release would be three times as wide as it is."""
    exact = curve_of(dp_sgd(4.0, 0.001, 10**5)).advantage
    mu = 0.001 * math.sqrt(10**5) * math.sqrt(math.expm1(1 / 16.0))  # its limit of many small steps
    assert exact == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=0.02)


def test_it_is_never_above_the_unamplified_curve():
    """Whose tail has no slack: for a mild mechanism it is far below 1e-7."""
    for mechanism in (dp_sgd(5.0, 0.9, 1), dp_sgd(1.0, 0.999, 9)):
        found, unamplified = curve_of(mechanism).deltas, gaussian(mechanism.mu).deltas
        assert (found <= unamplified).all()
    assert curve_of(dp_sgd(5.0, 0.9, 1)).deltas[-1] < 1e-12


def test_beyond_the_library_the_unamplified_curve_remains():
    mechanism = dp_sgd(0.02, 0.001, 10)
    above = curve_of(mechanism, points=4e4).deltas
    assert (above <= gaussian(mechanism.mu).deltas).all() and np.isfinite(above).all()
    assert above[0] >= 1 - 0.999**10  # some step sees the unit


def test_what_releases_nothing_or_adds_no_noise_has_no_curve():
    for mechanism in (dp_sgd(1.0, 0.0, 5), dp_sgd(0.0, 0.5, 5)):
        with pytest.raises(ValueError, match="mu must be above 0"):
            curve_of(mechanism)


# p-values


def test_the_reviewed_p_value():
    curve = curve_of(dp_sgd(1.0, 0.01, 1000))
    assert p_value(curve, 120, 80, 70) == pytest.approx(0.00196, rel=3e-3)


def scores(sigma, q, steps, present, draws, noise=1.0):
    """Log-likelihood ratios, at the claim, of every step's noisy gradient of one unit each.

    noise: the true standard deviation over the claimed one.
    """
    total = np.zeros(present.shape)
    for _ in range(steps):
        sampled = present * (draws.random(present.shape) < q)
        x = draws.normal(0.0, noise * sigma, present.shape) + sampled
        total += np.log1p(q * np.expm1((2 * x - 1) / (2 * sigma**2)))
    return total


def refuted(mechanism, sampled, m, runs, draws, level=0.05):
    """How often the claim is refuted. sampled: (2, n) scores of the absent and of the present."""
    s, least = guess_count(curve_of(mechanism), m, level)
    present = draws.integers(0, 2, (runs, m))
    drawn = sampled[present, draws.integers(0, sampled.shape[1], (runs, m))]
    ranked = np.take_along_axis(present, np.argsort(drawn, axis=1), axis=1)
    right = ranked[:, m - s :].sum(axis=1) + (1 - ranked[:, :s]).sum(axis=1)
    return (right >= least).mean()


CLAIMS = [(1.0, 0.01, 1000), (1.1, 0.02, 500), (0.9, 0.04, 250)]


@repeats(1000, 2000)
@pytest.mark.parametrize(
    "claim",
    [CLAIMS[0], *(pytest.param(c, marks=pytest.mark.calibration) for c in CLAIMS[1:])],
    ids=str,
)
def test_training_exactly_as_claimed_is_refuted_in_at_most_five_percent(claim, runs):
    draws, size = np.random.default_rng(1), 4000 if runs < 2000 else 40_000
    sampled = scores(*claim, np.repeat([[0], [1]], size, axis=1), draws)
    for m in (50, 120, 500):
        assert refuted(dp_sgd(*claim), sampled, m, runs, draws) <= 0.03


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("claim", "powers"),
    list(zip(CLAIMS, [(0.20, 0.32, 0.88), (0.25, 0.50, 0.98), (0.47, 0.73, 1.0)], strict=True)),
    ids=str,
)
def test_half_the_noise_is_found_nearly_as_often_as_was_reviewed(claim, powers):
    draws = np.random.default_rng(2)
    half = scores(*claim, np.repeat([[0], [1]], 20_000, axis=1), draws, noise=0.5)
    for m, power in zip((50, 120, 500), powers, strict=True):
        assert refuted(dp_sgd(*claim), half, m, 2000, draws) > power - 0.12


# the noise


def test_the_bound_on_the_noise_is_where_p_crosses_the_level():
    """The noise of further terms keeps its ratio."""
    mechanism = Mechanism((Gaussians(1.0, 200, 0.05), Gaussians(8.0, 3)), "replace")
    assert [t.noise_multiplier for t in with_noise(mechanism, 0.5).terms] == [0.5, 4.0]
    sigma = sigma_upper(mechanism, 120, 120, 118)
    assert 0.5 < sigma < 3.0
    assert p_value(curve_of(with_noise(mechanism, sigma)), 120, 120, 118) < 0.0501
    assert p_value(curve_of(with_noise(mechanism, 0.98 * sigma)), 120, 120, 118) > 0.05


def test_of_one_gaussian_it_is_a_bound_on_mu():
    """The largest μ that is refuted, from the p-value alone."""
    sigma = sigma_upper(Mechanism((Gaussians(3.0, 9),), "add_or_remove"), 120, 80, 78)
    assert p_value(gaussian(3.0 / sigma * 1.01), 120, 80, 78) > 0.0495
    assert p_value(gaussian(3.0 / sigma), 120, 80, 78) < 0.05
    assert sigma > 3.0 / 1.35


def test_no_evidence_bounds_no_noise():
    for right in (0, 40, 46):
        assert sigma_upper(dp_sgd(1.0, 0.01, 1000), 120, 80, right) == math.inf
