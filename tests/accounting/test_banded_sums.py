"""Banded noise: what k participations cost, which statements of them are refused, how they read."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import toeplitz

from audit.accounting import (
    BandedSums,
    Gaussians,
    Mechanism,
    claimed_mechanism,
    curve_of,
    described,
    epsilon,
    recompute,
    to_table,
)
from audit.accounting.banded import square_root
from audit.accounting.gaussian import gaussian_epsilon
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.terms import Relation, Unit
from audit.findings.stored import _of_accounting

ADD, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE
DELTA, BANDS, STEPS = 1e-5, 4, 200
N, B = 1000, 10
SAMPLED = BandedSums(0.9, STEPS // BANDS, STEPS, square_root(BANDS), BANDS * B / N)
CAPPED = BandedSums(5.0, 7, STEPS, square_root(BANDS))


def of(term: BandedSums | Gaussians, relation: str = ADD) -> float:
    return epsilon(Mechanism((term,), relation), DELTA)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_sampled_sums_cost_as_that_many_independent_ones(relation: str) -> None:
    assert of(SAMPLED, relation) == of(Gaussians(0.9, 50, 0.04), relation)
    curves = [curve_of(Mechanism((t,), relation)).deltas for t in (SAMPLED, SAMPLED.independent)]
    assert np.array_equal(*curves)


def test_the_share_of_all_units_would_be_too_little() -> None:
    """Accounted with B/N in place of b̂·B/N, ε is too small, over T steps and over ⌈T/b̂⌉."""
    wrong = Gaussians(0.9, STEPS // BANDS, B / N), Gaussians(0.9, STEPS, B / N)
    assert all(1.2 * of(one) < of(SAMPLED) for one in wrong)


def test_a_cap_without_sampling_is_one_gaussian() -> None:
    for relation, distance in ((ADD, 1.0), (REPLACE, 2.0)):
        mu = distance * math.sqrt(7) / 5.0
        assert CAPPED.mu(relation) == pytest.approx(mu)
        assert of(CAPPED, relation) == gaussian_epsilon(mu, math.log(DELTA))


@pytest.mark.parametrize(("bands", "cap"), [(2, 3), (3, 2), (4, 2)])
def test_no_pattern_of_participations_moves_further_than_its_cap(bands: int, cap: int) -> None:
    """Over all patterns of 8 steps that are b̂ apart, by gradients that all point one way."""
    steps, column = 8, square_root(bands)
    c = toeplitz([*column, *[0.0] * steps][:steps], np.zeros(steps))
    worst = {True: 0.0, False: 0.0}
    for pattern in itertools.product((0.0, 1.0), repeat=steps):
        taken = np.flatnonzero(pattern)
        if len(taken) <= cap:
            apart = bool((np.diff(taken) >= bands).all())
            worst[apart] = max(worst[apart], float(np.linalg.norm(c @ np.array(pattern))))
    term = BandedSums(1.0, cap, steps, column)
    assert 0.85 * term.mu(ADD) < worst[True] <= term.mu(ADD) + 1e-12
    assert worst[False] > 1.05 * term.mu(ADD)  # closer than b̂, norms add up


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"count": 49}, "200 steps and 4 bands leave a record 50 sums; count is 49"),
        ({"count": 51}, "leave a record 50 sums; count is 51"),
        ({"count": 51, "sampling_probability": 1.0}, "leave a record 50 sums; count is 51"),
        ({"steps": 201}, "leave a record 51 sums; count is 50"),
        ({"column": (1.0, 0.1, 0.1, 0.1)}, "norm 1.01489, .* scale it to 1"),
        ({"column": ()}, "must begin with a number above 0"),
        ({"column": (0.0, 1.0)}, "must begin with a number above 0"),
        ({"column": (0.5, math.nan, 0.1, 0.1)}, "be finite"),
        ({"sampling_probability": 1.5}, r"must lie in \[0, 1\]"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
    ],
)
def test_what_is_not_the_mechanism_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replace(SAMPLED, **changes)


def claim(term: BandedSums, **changes: Any) -> Guarantee:
    mechanism = Mechanism((term,), ADD)
    stated = Guarantee(
        epsilon(mechanism, DELTA), Unit.USER, ADD, "model", "worst case", "t", DELTA,
        accounting=json.loads(json.dumps(to_table(mechanism, DELTA))),
    )  # fmt: skip
    return replace(stated, **changes)


@pytest.mark.parametrize("term", [SAMPLED, CAPPED])
def test_the_table_is_plain_and_its_epsilon_recomputed(term: BandedSums) -> None:
    stated = claim(term)
    assert stated.accounting == to_table(Mechanism((term,), ADD), DELTA)
    assert recompute(stated.accounting) == stated.epsilon == of(term)
    assert _of_accounting(stated) == ""
    assert "its own accounting gives" in _of_accounting(claim(term, epsilon=0.9 * of(term)))
    assert claimed_mechanism(stated, Unit.USER, ADD) == Mechanism((term,), ADD)
    assert claimed_mechanism(stated, Unit.USER, REPLACE) == Mechanism((term,), REPLACE)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [("count", 1, "count is 1"), ("column", [1.0, 1.0, 0.0, 0.0], "norm 1.41421")],
)
def test_an_edited_table_is_noticed(field: str, value: Any, why: str) -> None:
    stated = claim(SAMPLED)
    assert stated.accounting is not None
    stated.accounting["terms"][0][field] = value
    with pytest.raises(UsageError, match=why):
        recompute(stated.accounting)
    assert why in _of_accounting(stated)


def test_several_sampled_records_have_no_curve() -> None:
    of_record = claim(SAMPLED, unit=Unit.RECORD)
    assert "no curve is known" in str(claimed_mechanism(of_record, Unit.USER, ADD, 3))
    always = claimed_mechanism(claim(CAPPED, unit=Unit.RECORD), Unit.USER, ADD, 3)
    assert always == Mechanism((replace(CAPPED, records=3),), ADD)
    assert always.mu == pytest.approx(3 * math.sqrt(7) / 5.0)


def test_it_is_named_as_what_it_is() -> None:
    said = described(Mechanism((SAMPLED,), ADD))
    assert said == (
        "DP-FTRL: banded noise, b̂ = 4, σ = 0.9, sampled in 4 groups with q = 0.04, T = 200, "
        "50 participations"
    )
    assert "at most 7 participations, not sampled, μ = 0.5292" in described(
        Mechanism((CAPPED,), ADD)
    )
    assert "q = 0.04 (0.01 of all units)" in SAMPLED.condition
    assert "not amplified" in CAPPED.condition and "q =" not in CAPPED.condition
