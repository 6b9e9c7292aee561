import math

import pytest

from audit.accounting import (
    EpsilonDistribution,
    Gaussians,
    Mechanism,
    epsilon,
    epsilon_under_replace,
    phrase_distribution,
    phrase_epsilon,
)
from audit.accounting.renyi import known_coins_epsilon

SIGMA, STEPS, Q, DELTA = 2.0, 40, 0.05, 1e-5


def of(term, relation="add_or_remove", delta=DELTA):
    return epsilon(Mechanism((term,), relation), delta)


def phrase(occurrences, relation="add_or_remove"):
    return phrase_epsilon(SIGMA, STEPS, Q, DELTA, occurrences, relation)


@pytest.fixture(scope="module")
def by_occurrences():
    return {n: phrase(n) for n in (0, 1, 2, 5)}


def test_a_phrase_in_one_record_costs_what_a_record_does(by_occurrences):
    assert by_occurrences[0] == 0.0
    assert by_occurrences[1] == pytest.approx(of(Gaussians(SIGMA, STEPS, Q)), rel=1e-3)


def test_more_occurrences_cost_more_than_their_number(by_occurrences):
    """n times a record's ε at the same δ would be too little: that is no group privacy."""
    ordered = list(by_occurrences.values())
    assert ordered == sorted(ordered)
    assert by_occurrences[5] > 5.5 * by_occurrences[1]


def test_occurrences_are_sampled_each_by_itself(by_occurrences):
    """Less than if one coin decided them all with the same chance of any of them."""
    together = Gaussians(SIGMA / 5, STEPS, 1 - (1 - Q) ** 5)
    assert by_occurrences[5] < 0.9 * of(together)


def test_without_sampling_the_distance_grows_with_the_occurrences():
    found = phrase_epsilon(30.0, 10, 1.0, DELTA, 7)
    assert found == pytest.approx(of(Gaussians(30.0 / 7, 10)), rel=1e-8)


def test_several_hundred_occurrences_have_a_finite_figure():
    many = phrase_epsilon(2.0, 50, 0.005, DELTA, 300)
    assert 1.0 < many < of(Gaussians(2.0 / 300, 50))


def test_a_distribution_counts_phrases(by_occurrences):
    found = phrase_distribution(SIGMA, STEPS, Q, DELTA, [1, 0, 5, 1, 0, 1])
    values = [by_occurrences[n] for n in (1, 0, 5, 1, 0, 1)]
    mean = pytest.approx(sum(values) / 6, rel=1e-12)  # summed in another order
    assert found == EpsilonDistribution(6, mean, 0.0, by_occurrences[5], 5 / 6)
    silent = phrase_distribution(SIGMA, STEPS, Q, DELTA, [0, 0])
    assert silent == EpsilonDistribution(2, 0.0, 0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="at least one phrase"):
        phrase_distribution(SIGMA, STEPS, Q, DELTA, [])


def test_without_noise_the_mean_says_so():
    found = phrase_distribution(0.0, STEPS, Q, DELTA, [0, 1])
    assert (found.mean, found.maximum, found.below_mean) == (math.inf, math.inf, 0.5)


# To replace


def test_one_record_is_replaced_directly():
    mechanism = Mechanism((Gaussians(SIGMA, STEPS, Q),), "add_or_remove")
    assert epsilon_under_replace(mechanism, DELTA) == of(Gaussians(SIGMA, STEPS, Q), "replace")
    assert phrase(1, "replace") == pytest.approx(of(Gaussians(SIGMA, STEPS, Q), "replace"), 1e-3)


def test_known_coins_without_sampling_are_one_gaussian():
    term = Gaussians(3.0, 5, 1.0, 2)
    found = known_coins_epsilon(Mechanism((term,), "add_or_remove"), math.log(DELTA))
    truth = of(Gaussians(1.5, 5), "replace")
    assert truth <= found <= 1.15 * truth


@pytest.mark.calibration  # of few records it is exact below, and where the legs add up
def test_very_many_records_replaced_cost_what_four_times_the_square_does():
    """Replacing doubles the distance; e^ε₁ in the second leg's δ would cost far more."""
    single = phrase_epsilon(1.0, 200, 0.02, DELTA, 100)
    replaced_ = phrase_epsilon(1.0, 200, 0.02, DELTA, 100, "replace")
    assert 2 * single < replaced_ < 6 * single


def test_several_records_are_removed_and_then_added(by_occurrences):
    """Between the direct bound for one record and two equal legs."""
    found = phrase(2, "replace")
    mechanism = Mechanism((Gaussians(SIGMA, STEPS, Q, 2),), "add_or_remove")
    leg = 0.5 * found
    assert found > 2 * by_occurrences[2] * (1 - 1e-3)
    assert found > phrase(1, "replace")
    wanted = DELTA / (1 + math.exp(leg))
    assert found <= 2 * epsilon(mechanism, wanted / 2)


def test_the_legs_add_up():
    """Unsampled in all but name, the two legs may be compared with one Gaussian twice as far."""
    nearly = Mechanism((Gaussians(20.0, 10, 1 - 1e-9, 2),), "add_or_remove")
    found = epsilon_under_replace(nearly, DELTA, 1e-3)
    truth = of(Gaussians(20.0 / 2, 10), "replace")
    assert truth <= found <= 1.3 * truth


def test_a_relation_is_one_of_two():
    with pytest.raises(ValueError, match="relation"):
        phrase(1, "removed")
