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


@pytest.mark.parametrize(
    ("promised", "delta", "refutes"),
    [
        (1e-5, 1e-5, True),
        (None, 1e-5, True),
        (0.0, 1e-5, True),
        (1e-5, 1e-4, True),  # a fortiori
        (1e-5, 1e-6, False),
        (1e-5, 0.0, False),
        (1e-5, None, False),  # it speaks of pure ε, which (ε, δ) never promised
    ],
)
def test_a_bound_refutes_at_the_delta_of_the_claim_or_above(promised, delta, refutes):
    reason = claim(delta=promised).incomparable("user", "add_or_remove", delta)
    assert (reason is None) == refutes


UNITS = ("record", "user", "part", "phrase", "private attributes of a record")
RELATIONS = ("add_or_remove", "replace", "removed")


def test_another_unit_or_relation_says_why_it_cannot_refute():
    kinds = list(itertools.product(UNITS, RELATIONS))
    for (unit, relation), (other, changed) in itertools.product(kinds, kinds):
        reason = claim(unit=unit, relation=relation).incomparable(other, changed, 1e-5)
        if (other, changed) == (unit, relation):
            assert reason is None
        elif relation == "replace" == changed:
            continue  # sound where the larger unit contains the smaller: below
        else:
            assert unit in reason and other in reason


def test_a_larger_unit_never_refutes_a_smaller_claim():
    attributes = "private attributes of a record"
    for small, large in (("record", "user"), (attributes, "record"), ("phrase", "user")):
        for relation in RELATIONS:
            assert claim(unit=small, relation=relation).incomparable(large, relation, 1e-5)
        assert claim(unit=large).incomparable(small, "add_or_remove", 1e-5)
        under_replace = claim(unit=large, relation="replace").incomparable(small, "replace", 1e-5)
        assert (under_replace is None) == (small != "phrase")


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


def test_an_epsilon_below_zero_or_nan_is_refused():
    for epsilon in (-1.0, -0.1, math.nan, -math.inf):
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
