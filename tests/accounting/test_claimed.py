"""Which mechanism one coin must obey, by claim, unit, relation and number of records."""

import dataclasses

import pytest

from audit.accounting import (
    Gaussians,
    Mechanism,
    claimed_mechanism,
    curve_of,
    described,
    hidden_states,
    to_table,
)
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.terms import Relation, Unit
from audit.statistics.claim_curve import gaussian

SAMPLED = Gaussians(1.1, 500, 0.02)
ADD, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE


def claim(*terms, unit=Unit.USER, relation=ADD, **changes):
    table = to_table(Mechanism(terms or (SAMPLED,), relation), 1e-5)
    stated = Guarantee(2.0, unit, relation, "model", "worst case", "t", 1e-5, accounting=table)
    return dataclasses.replace(stated, **changes)


def test_a_user_is_one_unit_however_many_records_it_has():
    for unit in (Unit.USER, Unit.ONE_RECORD):
        assert claimed_mechanism(claim(), unit, ADD, 7) == Mechanism((SAMPLED,), ADD)


def test_of_a_claim_per_record_a_coin_takes_all_its_records():
    of_record = claim(unit=Unit.RECORD)
    several = Gaussians(1.1, 500, 0.02, 3)
    assert claimed_mechanism(of_record, Unit.USER, ADD, 3) == Mechanism((several,), ADD)
    assert claimed_mechanism(of_record, Unit.RECORD, ADD) == Mechanism((SAMPLED,), ADD)
    assert claimed_mechanism(of_record, Unit.RECORD, ADD, 3) == Mechanism((several,), ADD)
    larger = curve_of(Mechanism((several,), ADD), points=4e4).deltas
    assert (larger[:80] > curve_of(Mechanism((SAMPLED,), ADD)).deltas[:80]).all()


def test_where_one_of_two_values_is_planted_the_replace_profile_holds():
    assert claimed_mechanism(claim(), Unit.USER, REPLACE) == Mechanism((SAMPLED,), REPLACE)
    attributes = claim(unit=Unit.ATTRIBUTES, relation=REPLACE)
    found = claimed_mechanism(attributes, Unit.ATTRIBUTES, REPLACE)
    assert found == Mechanism((SAMPLED,), REPLACE)


def test_a_smaller_unit_is_covered_where_it_is_exchanged_only():
    for unit in (Unit.RECORD, Unit.ATTRIBUTES, Unit.ATTRIBUTES_OF_USER):
        assert claimed_mechanism(claim(), unit, REPLACE) == Mechanism((SAMPLED,), REPLACE)
        assert "per user" in claimed_mechanism(claim(), unit, ADD)


def test_of_several_records_that_are_exchanged_only_the_unsampled_have_a_curve():
    always = Gaussians(5.0, 30)
    of_record = claim(always, unit=Unit.RECORD)
    found = claimed_mechanism(of_record, Unit.USER, REPLACE, 3)
    assert found == Mechanism((Gaussians(5.0, 30, 1.0, 3),), REPLACE)
    assert curve_of(found).deltas == pytest.approx(gaussian(2 * 3 * 30**0.5 / 5).deltas, abs=1e-12)
    for unit in (Unit.RECORD, Unit.ATTRIBUTES):
        sampled = claim(unit=unit, relation=REPLACE)
        reason = claimed_mechanism(sampled, Unit.ATTRIBUTES_OF_USER, REPLACE, 2)
        assert "several records" in reason
    reason = claimed_mechanism(claim(Gaussians(1.0, 9, 0.1, 4)), Unit.USER, REPLACE)
    assert "several records" in reason


def test_a_claim_for_units_that_are_replaced_says_nothing_of_presence():
    exchanged = claim(unit=Unit.RECORD, relation=REPLACE)
    assert "come and go" in claimed_mechanism(exchanged, Unit.RECORD, ADD)
    attributes = claim(unit=Unit.ATTRIBUTES, relation=REPLACE)
    assert "per private attributes" in claimed_mechanism(attributes, Unit.USER, ADD)
    assert "per private attributes" in claimed_mechanism(attributes, Unit.USER, REPLACE)


def test_teachers_of_a_user_count_together():
    answers = Gaussians(7.0, 80, records=2)
    mechanism = Mechanism((answers,), ADD)
    assert claimed_mechanism(claim(answers), Unit.USER, ADD, 5) == mechanism
    per_record = claimed_mechanism(claim(answers, unit=Unit.RECORD), Unit.USER, ADD, 3)
    assert per_record == Mechanism((Gaussians(7.0, 80, records=6),), ADD)


def test_where_both_relations_are_alike_replacing_costs_no_more():
    """Teachers answer with a distribution whether they know a user or not."""
    answers = Gaussians(7.0, 80)
    both = claim(answers, also=(REPLACE,))
    alike = Mechanism((answers,), ADD)
    assert claimed_mechanism(both, Unit.USER, REPLACE) == alike
    assert claimed_mechanism(both, Unit.USER, ADD) == alike


@pytest.mark.parametrize(
    ("guarantee", "reason"),
    [
        (no_guarantee("none"), "no ε is claimed"),
        (claim(epsilon=None), "no ε is claimed"),
        (claim(basis="data-dependent"), "data-dependent"),
        (claim(accounting=None), "no mechanism"),
        (claim(accounting=None, delta=None, alpha=2.0), "no mechanism"),
        (claim(unit=Unit.PART, relation=ADD), "per part"),
        (claim(unit=Unit.PHRASE), "per phrase"),
        (claim(Gaussians(0.0, 5)), "adds no noise"),
        (claim(Gaussians(1.0, 5, 0.0)), "releases nothing"),
    ],
)
def test_where_there_is_no_curve_it_says_why(guarantee, reason):
    found = claimed_mechanism(guarantee, Unit.USER, ADD)
    assert isinstance(found, str) and reason in found


def test_a_coin_that_decides_nothing_is_no_test():
    assert "no record" in claimed_mechanism(claim(unit=Unit.RECORD), Unit.USER, ADD, 0)


def test_a_mechanism_is_described_in_a_few_words():
    assert described(Mechanism((SAMPLED,), ADD)) == "DP-SGD, σ = 1.1, q = 0.02, T = 500"
    assert described(Mechanism((Gaussians(5.0, 25),), ADD)) == "Gaussian noise, μ = 1"
    several = Mechanism((Gaussians(1.1, 500, 0.02, 3),), ADD)
    assert described(several) == "DP-SGD, σ = 1.1, q = 0.02, T = 500, 3 records each"
    states = Mechanism((SAMPLED, hidden_states(16.0, 32)), REPLACE)
    assert described(states) == "DP-SGD, σ = 1.1, q = 0.02, T = 500 and Gaussian noise, μ = 1"
    unused = Mechanism((SAMPLED, Gaussians(1.0, 0)), ADD)
    assert described(unused) == "DP-SGD, σ = 1.1, q = 0.02, T = 500"
