import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.exposure import (
    epsilon_from_rank,
    epsilon_from_ranks,
    exposure_bits,
    null_exposure_bits,
    rank_p_value,
    sampled_exposure_bits,
)
from tests.simulations import most

spaces = st.integers(2, 10**7).flatmap(
    lambda space: st.tuples(st.just(space), st.integers(1, space))
)
relations = st.sampled_from(["add_or_remove", "replace"])
deltas = st.sampled_from([0.0, 1e-9, 1e-5, 1e-3])


def test_exposure_by_hand():
    assert exposure_bits(1024, 1) == 10
    assert exposure_bits(1024, 1024) == 0
    assert exposure_bits(1024, 2) == 9
    assert exposure_bits(10**5, 1.5) == pytest.approx(math.log2(10**5 / 1.5))


def test_null_exposure_by_hand():
    assert null_exposure_bits(1) == 0
    assert null_exposure_bits(100) == pytest.approx(1.396, abs=5e-4)
    assert null_exposure_bits(10**7) == pytest.approx(1.4427, abs=5e-5)
    by_hand = np.mean([exposure_bits(37, rank) for rank in range(1, 38)])
    assert null_exposure_bits(37) == pytest.approx(by_hand)


def test_sampled_exposure_is_as_published():
    found = sampled_exposure_bits([0.0, 20.0, 3.5], np.arange(1, 17))
    assert found == pytest.approx([4, -0.0874628413, 2], abs=1e-10)
    tied = sampled_exposure_bits([3.0], [1.0, 3.0, 3.0, 9.0])
    assert tied == pytest.approx([0.0])  # ties against


def test_known_bounds():
    assert round(epsilon_from_rank(1e6, 1, 1e-5), 5) == 10.81958
    assert round(epsilon_from_rank(1e6, 1, 1e-5, copies=10), 4) == 0.8717
    by_hand = math.log(((100 - 3) * 0.05 - 99 * 1e-3) / (3 * 0.95))
    assert epsilon_from_rank(100, 3, 1e-3, relation="replace") == pytest.approx(by_hand)


@given(spaces, deltas, relations, st.integers(1, 12))
def test_bound_is_the_supremum_of_refuted_claims(space_rank, delta, relation, copies):
    space, rank = space_rank
    epsilon = epsilon_from_rank(space, rank, delta, relation=relation, copies=copies)
    at = lambda e: rank_p_value(e, space, rank, delta, relation, copies)  # noqa: E731
    if epsilon > 0:
        assert at(epsilon * (1 - 1e-9)) < 0.05
    assert at(epsilon * (1 + 1e-9) + 1e-11) >= 0.05 - 1e-12


@given(spaces, deltas, relations, st.integers(1, 12), st.floats(0, 40))
def test_worse_ranks_and_more_copies_show_less(space_rank, delta, relation, copies, epsilon):
    space, rank = space_rank
    p = rank_p_value(epsilon, space, rank, delta, relation, copies)
    slack = 1e-12
    assert p <= rank_p_value(epsilon, space, min(space, rank + 1), delta, relation, copies) + slack
    assert p <= rank_p_value(epsilon, space, rank, delta, relation, copies + 1) + slack
    assert p <= rank_p_value(epsilon, space, rank, delta + 1e-3, relation, copies) + slack
    assert p <= rank_p_value(epsilon + 0.1, space, rank, delta, relation, copies) + slack


@given(spaces, deltas, st.integers(2, 12))
def test_copies_cost_more_than_a_proportional_share(space_rank, delta, copies):
    space, rank = space_rank
    one = epsilon_from_rank(space, rank, delta)
    many = epsilon_from_rank(space, rank, delta, copies=copies)
    assert many <= one / copies + 1e-9
    if delta == 0:
        assert many == pytest.approx(one / copies, abs=1e-9)


def test_replace_is_attained_by_subset_selection():
    """The release that is best at this shows a set of t candidates, those with the secret e^ε times
    as likely as the others: the p-value at its own ε is exactly its success rate."""
    epsilon, space = 1.5, 30
    for t in (1, 4):
        subsets = math.comb(space - 1, t - 1) * math.exp(epsilon)
        success = subsets / (subsets + math.comb(space - 1, t))
        assert rank_p_value(epsilon, space, t, relation="replace") == pytest.approx(success)


@pytest.mark.parametrize("copies", [1, pytest.param(3, marks=pytest.mark.calibration)])
def test_randomised_response_is_refuted_at_level(copies):
    """Each copy is released by randomised response; ranks are by summed likelihood."""
    epsilon, space, runs = 1.5, 100, 4000
    draw = np.random.default_rng(copies)
    keep = math.exp(epsilon) / (math.exp(epsilon) + space - 1)
    seen = np.zeros((runs, space), dtype=int)
    for _ in range(copies):
        kept = draw.random(runs) < keep
        shown = np.where(kept, 0, draw.integers(1, space, size=runs))  # the secret is 0
        seen[np.arange(runs), shown] += 1
    ranks = (seen >= seen[:, :1]).sum(axis=1)  # ties against the secret
    bounds = {t: epsilon_from_rank(space, t, relation="replace", copies=copies) for t in set(ranks)}
    wrong = np.mean([bounds[t] > epsilon for t in ranks])
    assert wrong <= most(runs)
    assert copies > 1 or wrong > 0.03  # rank 1 has probability .0433


def test_copies_compose_one_after_the_other():
    epsilon, delta = 0.7, 1e-4
    grown = delta * (1 + math.exp(epsilon) + math.exp(2 * epsilon))
    inside = math.exp(3 * epsilon) * 2
    added = rank_p_value(epsilon, 1000, 2, delta, "add_or_remove", 3)
    assert added == pytest.approx(inside / 1000 + grown)
    replaced = rank_p_value(epsilon, 1000, 2, delta, "replace", 3)
    assert replaced * (inside + 998) == pytest.approx(inside + 999 * grown)
    assert rank_p_value(0.0, 1000, 2, delta, copies=3) == pytest.approx(0.002 + 3 * delta)


def test_add_or_remove_is_attained_at_rank_one():
    """A release whose law is e^ε times the unit-free law on rank 1, as the definition allows."""
    epsilon, space, delta = 2.0, 200, 0.002
    first = math.exp(epsilon) / space + delta  # P(rank = 1); .0389: refutes only if p < .05
    assert rank_p_value(epsilon, space, 1, delta) == pytest.approx(first)
    assert epsilon_from_rank(space, 1, delta, 1 - first) == pytest.approx(epsilon)


def test_lower_median_is_tested_at_half_level():
    assert epsilon_from_ranks(1e6, [1, 1, 5e5, 9e5]) == pytest.approx(math.log(0.025e6))
    assert epsilon_from_ranks(1e6, [9e5, 7, 1]) == pytest.approx(math.log(0.025e6 / 7))
    assert epsilon_from_ranks(1e6, [1], 1e-5) == epsilon_from_rank(1e6, 1, 1e-5)


@pytest.mark.calibration
def test_dependent_ranks_refute_at_level():
    epsilon, space, repeats = 1.0, 100, 20000
    draw = np.random.default_rng(6)
    first = math.exp(epsilon) / space
    shared = np.where(draw.random(repeats) < first, 1, draw.integers(2, space + 1, size=repeats))
    bounds = {t: epsilon_from_ranks(space, [t, t, space, space]) for t in set(shared)}
    assert np.mean([bounds[t] > epsilon for t in shared]) <= 0.05


def test_nothing_shown_is_zero():
    for relation, copies in itertools.product(("add_or_remove", "replace"), (1, 4)):
        for space, rank, delta in [(100, 50, 0.0), (100, 100, 0.0), (1, 1, 0.0), (10**6, 1, 0.06)]:
            assert epsilon_from_rank(space, rank, delta, relation=relation, copies=copies) == 0.0
        assert rank_p_value(math.inf, 100, 1, 0.0, relation, copies) == 1.0
