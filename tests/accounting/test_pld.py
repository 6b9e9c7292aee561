"""What is worked out faster than by the library, against the library."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.accounting import Gaussians, Mechanism
from audit.accounting.events import event
from audit.accounting.pld import _at_interval, pld_epsilon

RELATIONS = {
    "add_or_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace": dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def of_the_library(mechanism, delta, interval):
    accountant = pld.PLDAccountant(RELATIONS[mechanism.relation], interval)
    with np.errstate(all="ignore"):
        accountant.compose(event(mechanism))
    return accountant.get_epsilon(delta)


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
    for delta in (1e-3, 1e-6):
        found = _at_interval(mechanism, delta, interval)
        assert found == pytest.approx(of_the_library(mechanism, delta, interval), rel=1e-6)


def test_a_release_that_is_hardly_ever_in_it_needs_no_wide_window():
    """Many releases on a coarse grid: the library raises its size to the power of their number."""
    mechanism = Mechanism((Gaussians(1.5, 10**6, 0.001),), "replace")
    finer, coarser = (pld_epsilon(mechanism, 1e-5, tolerance) for tolerance in (1e-3, 0.1))
    assert finer <= coarser
    assert finer == pytest.approx(of_the_library(mechanism, 1e-5, 5e-5), rel=2e-3)


@settings(max_examples=20, deadline=None)
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
