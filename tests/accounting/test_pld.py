"""What is worked out faster than by the library, against the library."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from audit.accounting import Gaussians, Mechanism
from audit.accounting.gaussian_losses import _deltas, _mixture
from audit.accounting.pld import _at_interval, _self_composed, pld_epsilon
from audit.accounting.privacy_loss import Losses

RELATIONS = {
    "add_or_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


DELTAS = 1e-3, 1e-6


def of_the_library(mechanism, interval, deltas=DELTAS):
    accountant = pld.PLDAccountant(RELATIONS[mechanism.relation], interval)
    with np.errstate(all="ignore"):
        for term in mechanism.terms:
            accountant.compose(term.event(), term.count)
    return [accountant.get_epsilon(delta) for delta in deltas]


@pytest.mark.parametrize("relation", sorted(RELATIONS))
@pytest.mark.parametrize(
    "terms, interval",
    [
        ((Gaussians(0.3, 10, 0.01),), 1e-2),
        ((Gaussians(0.4, 1000, 1e-5),), 5e-3),
        ((Gaussians(0.5, 1000, 0.001),), 1e-3),
        ((Gaussians(1.0, 1000, 0.01),), 1e-3),
        ((Gaussians(1.6, 10**5, 0.001),), 2e-4),
        ((Gaussians(5.0, 100, 0.9),), 1e-3),
        ((Gaussians(30.0, 20, 1 - 1e-9),), 1e-4),
        ((Gaussians(1.0, 200, 0.05), Gaussians(8.0, 3)), 2e-3),
    ],
)
def test_on_the_same_grid_it_is_what_the_library_finds(terms, interval, relation):
    mechanism = Mechanism(terms, relation)
    found = [_at_interval(mechanism, delta, interval) for delta in DELTAS]
    assert found == pytest.approx(of_the_library(mechanism, interval), rel=1e-6)


MIXTURES = [
    (Gaussians(1.0, 1000, 0.01, 2), 4e-2),
    (Gaussians(2.0, 10**5, 0.001, 5), 4e-3),
    (Gaussians(0.3, 1000, 1e-5, 20), 0.3),
    (Gaussians(8.0, 100, 0.9, 40), 0.4),
    (Gaussians(0.5, 30, 0.2, 100), 20.0),  # losses whose exponential overflows
    (Gaussians(1.0, 10, 1 - 1e-9, 40), 10.0),  # and nobody is missing, in floating point
    (Gaussians(30.0, 10, 0.5, 40), 0.1),
    (Gaussians(200.0, 10, 0.01, 2), 5e-6),
    (Gaussians(0.6, 10, 1e-12, 2), 1e-2),
]


@pytest.mark.parametrize("term, interval", MIXTURES)
def test_of_several_records_it_is_what_the_library_finds(term, interval):
    mechanism = Mechanism((term,), "add_or_remove")
    found = [_at_interval(mechanism, delta, interval) for delta in DELTAS]
    assert found == pytest.approx(of_the_library(mechanism, interval), rel=1e-6)


@pytest.mark.parametrize("term, interval", MIXTURES)
def test_no_delta_of_a_mixture_is_lower_than_the_librarys(term, interval):
    """Beyond rounding errors of both. For tiny q the library's is too low, and ours is higher."""
    numbers = term.noise_multiplier, term.sampling_probability, term.records
    for way in ("REMOVE", "ADD"):
        with np.errstate(all="ignore"):
            low, mine = _deltas(*numbers, way, interval)
            at = np.arange(low, low + mine.size) * interval
            theirs = _mixture(*numbers, way).get_delta_for_epsilon(at)
        assert (theirs - mine).max() < 3e-15
        assert (np.diff(mine) <= 0.0).all()


def test_a_release_that_is_hardly_ever_in_it_needs_no_wide_window():
    """Many releases on a coarse grid: the library raises its size to the power of their number."""
    mechanism = Mechanism((Gaussians(1.5, 10**6, 0.001),), "replace")
    finer, coarser = (pld_epsilon(mechanism, 1e-5, tolerance) for tolerance in (1e-3, 0.1))
    assert finer <= coarser
    assert finer == pytest.approx(*of_the_library(mechanism, 5e-5, [1e-5]), rel=2e-3)


@settings(max_examples=8, deadline=None)
@given(
    st.floats(0.3, 8),
    st.integers(1, 10**5),
    st.sampled_from([1e-5, 1e-3, 0.03, 0.4]),
    st.sampled_from(sorted(RELATIONS)),
    st.sampled_from([1e-7, 1e-4]),
)
def test_a_smaller_tolerance_never_returns_more(sigma, count, q, relation, delta):
    mechanism = Mechanism((Gaussians(sigma, count, q),), relation)
    bounds = [pld_epsilon(mechanism, delta, tolerance) for tolerance in (0.5, 0.03, 1e-3)]
    assert bounds == sorted(bounds, reverse=True)
    assert not math.isnan(bounds[0])


def exact_epsilon(sigma, q, delta):
    """ε of one release with a record removed, nats, from both normal tails in logarithms.

    The loss at x is log(1 − q + q·e^((2x−1)/2σ²)), so it passes ε at x(ε); δ(ε) is
    P[x > x(ε)] − e^ε·Q[x > x(ε)], with P the mixture and Q = N(0, σ²).
    """

    def log_delta(epsilon):
        reached = epsilon + math.log1p(-(1 - q) * math.exp(-epsilon)) - math.log(q)
        x = sigma**2 * reached + 0.5
        with_it, without = (norm.logsf((x - place) / sigma) for place in (1.0, 0.0))
        mixed = np.logaddexp(math.log(q) + with_it, math.log1p(-q) + without)
        paid = epsilon + without - mixed
        return mixed + math.log1p(-math.exp(paid)) if paid < 0 else -math.inf

    return brentq(lambda epsilon: log_delta(epsilon) - math.log(delta), 1e-3, 1e6)


@pytest.mark.parametrize("sigma", [0.5, 0.05, 0.03, 0.02, 0.01])
def test_losses_whose_exponential_overflows_are_counted(sigma):
    """With σ = .02 the loss of one release passes 709 nats, where a double's exponential ends."""
    true = exact_epsilon(sigma, 0.5, 1e-5)
    found = pld_epsilon(Mechanism((Gaussians(sigma, 1, 0.5),), "add_or_remove"), 1e-5, 1e-3)
    assert true <= found <= 1.05 * true


@pytest.mark.parametrize(("lost", "endless"), [(0.1, 1 - 0.9**3), (0.0, 0.0)])
def test_composed_infinite_loss_is_the_chance_of_any(lost, endless):
    """Three releases; the mass that a composition may cut off, 1e-15, is counted at infinity."""
    one = Losses(0, np.array([0.5, 0.5 - lost]), lost)
    delta = _self_composed(one, 3, 0.1).get_delta_for_epsilon(1e6)
    assert delta == pytest.approx(endless + 1e-15, rel=1e-9, abs=0.0)
