import itertools
import math

import pytest

from audit.core.guarantee import Guarantee, no_guarantee


def claim(**changes):
    fields = {
        "epsilon": 2.0,
        "unit": "user",
        "relation": "add_or_remove",
        "release": "model",
        "basis": "worst case",
        "theorem": "t",
        "delta": 1e-5,
    }
    return Guarantee(**{**fields, **changes})


def test_a_bound_for_the_same_thing_can_refute():
    assert claim().incomparable("user", "add_or_remove", 1e-5) is None
    assert claim(delta=None).incomparable("user", "add_or_remove", 1e-5) is None
    assert claim(delta=0.0).incomparable("user", "add_or_remove", 1e-5) is None


def test_a_bound_at_a_larger_delta_refutes_a_fortiori_and_at_a_smaller_one_not_at_all():
    assert claim().incomparable("user", "add_or_remove", 1e-4) is None
    assert claim().incomparable("user", "add_or_remove", 1e-6)
    assert claim().incomparable("user", "add_or_remove", 0.0)


def test_a_bound_without_delta_cannot_refute_a_claim_with_one():
    # without δ a bound speaks of pure ε, which (ε, δ) never promised
    assert claim().incomparable("user", "add_or_remove", None)


UNITS = ("record", "user", "part", "phrase", "private attributes of a record")
RELATIONS = ("add_or_remove", "replace", "removed")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_another_unit_or_relation_says_why_it_cannot_refute(unit, relation):
    for other, changed in itertools.product(UNITS, RELATIONS):
        reason = claim(unit=unit, relation=relation).incomparable(other, changed, 1e-5)
        if (other, changed) == (unit, relation):
            assert reason is None
        elif relation == "replace" == changed:
            continue  # sound where the larger unit contains the smaller: below
        else:
            assert unit in reason
            assert other in reason


def test_a_user_level_bound_never_refutes_a_part_removed_claim():
    part = claim(unit="part", relation="removed")
    for relation in RELATIONS:
        assert part.incomparable("user", relation, 1e-5)


@pytest.mark.parametrize(
    ("small", "large"),
    [("record", "user"), ("private attributes of a record", "record"), ("phrase", "user")],
)
def test_a_larger_unit_never_refutes_a_smaller_claim(small, large):
    for relation in RELATIONS:
        assert claim(unit=small, relation=relation).incomparable(large, relation, 1e-5)
    assert claim(unit=large).incomparable(small, "add_or_remove", 1e-5)


@pytest.mark.parametrize(
    ("small", "large"), [("record", "user"), ("private attributes of a record", "record")]
)
def test_under_replace_a_smaller_unit_refutes_a_larger_claim(small, large):
    assert claim(unit=large, relation="replace").incomparable(small, "replace", 1e-5) is None


def test_rényi_and_data_dependent_claims_are_not_refuted_by_worst_case_bounds():
    assert "order 2" in claim(alpha=2.0, delta=None).incomparable("user", "add_or_remove", 1e-5)
    assert "data-dependent" in claim(basis="data-dependent").incomparable(
        "user", "add_or_remove", 1e-5
    )


def test_zero_is_promised_to_everybody():
    zero = claim(epsilon=0.0, delta=0.0)
    for unit, relation, delta in itertools.product(UNITS, RELATIONS, (0.0, 1e-5, None)):
        assert zero.incomparable(unit, relation, delta) is None
    assert claim(epsilon=0.0, delta=None, alpha=2.0).incomparable("user", "replace", 1e-5) is None


def test_zero_with_a_delta_is_no_such_promise():
    # (0, 0.1) lets one in ten be given away: a bound at a smaller δ does not refute it
    assert claim(epsilon=0.0, delta=0.1).incomparable("user", "add_or_remove", 1e-5)


@pytest.mark.parametrize("epsilon", [-1.0, -0.1, math.nan, -math.inf])
def test_an_epsilon_below_zero_or_nan_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        claim(epsilon=epsilon)


def test_nothing_promised_and_unknown_are_values():
    assert claim(epsilon=None).promises_nothing
    assert claim(epsilon=math.inf).promises_nothing
    assert no_guarantee("why").promises_nothing
    assert no_guarantee("why").theorem == "why"
    assert not claim(epsilon=0.0).promises_nothing
    assert not claim(epsilon=1e9).promises_nothing


@pytest.mark.parametrize(
    "change",
    [
        {"unit": "record"},
        {"relation": "replace"},
        {"basis": "data-dependent"},
        {"delta": 1e-6},
        {"delta": None},
        {"alpha": 2.0},
    ],
)
def test_guarantees_that_differ_in_kind_are_not_ranked(change):
    one, other = claim(), claim(epsilon=1.0, **change)
    name = next(iter(change))
    assert name in one.incomparable_to(other)
    assert name in other.incomparable_to(one)


@pytest.mark.parametrize(
    "same", [{"epsilon": 9.0}, {"theorem": "u"}, {"conditions": ("c",)}, {"release": "predictions"}]
)
def test_guarantees_of_one_kind_are_ranked(same):
    assert claim().incomparable_to(claim(**same)) is None


@pytest.mark.parametrize(
    "other",
    [
        {"unit": "private attributes of a record", "relation": "replace"},
        {"unit": "part", "relation": "removed", "basis": "data-dependent"},
        {"unit": "record", "relation": "replace"},
    ],
)
def test_zero_under_another_relation_is_not_zero_for_users_who_come_and_go(other):
    fields = {"unit": "user", "relation": "add_or_remove", "basis": "worst case", **other}
    zero = Guarantee(0.0, release="model", theorem="t", delta=0.0, **fields)
    assert zero.incomparable("user", "add_or_remove", 1e-5)
