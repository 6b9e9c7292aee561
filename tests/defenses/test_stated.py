"""What a trainer states of a model trained elsewhere: an ε, or the mechanism that makes it."""

from __future__ import annotations

from typing import Any

import pytest

from audit.accounting import Gaussians, Mechanism, claimed_mechanism, epsilon, recompute
from audit.accounting.banded import square_root
from audit.core.errors import UsageError
from defenses.as_is import AsIs
from tests.refusals import refusals

DP_SGD: dict[str, Any] = {"noise_multiplier": 1.0, "sampling_probability": 0.01, "steps": 1000}
TERM = Gaussians(1.0, 1000, 0.01)


def test_nothing_stated_is_unknown() -> None:
    assert AsIs().promise.epsilon is None
    assert AsIs(claim="").promise.epsilon is None


def test_a_bare_claim_has_no_mechanism() -> None:
    promise = AsIs(claim="8:1e-5:record:replace").promise
    assert (promise.epsilon, promise.delta) == (8.0, 1e-5)
    assert (promise.unit, promise.relation) == ("record", "replace")
    assert promise.accounting is None
    assert "no mechanism" in str(claimed_mechanism(promise, "record", "replace"))


@pytest.mark.parametrize("relation", ["add_or_remove", "replace"])
@pytest.mark.parametrize("unit", ["user", "record"])
def test_epsilon_follows_from_the_mechanism(unit: str, relation: str) -> None:
    promise = AsIs(claim=f"1e-5:{unit}:{relation}", **DP_SGD).promise
    mechanism = Mechanism((TERM,), relation)
    assert promise.epsilon == epsilon(mechanism, 1e-5)
    assert promise.epsilon == pytest.approx(2.8434 if relation == "replace" else 1.8282, abs=2e-4)
    assert promise.accounting is not None
    assert recompute(promise.accounting) == promise.epsilon
    assert (promise.delta, promise.unit, promise.relation) == (1e-5, unit, relation)
    assert claimed_mechanism(promise, unit, relation) == mechanism
    assert "Poisson" in promise.conditions[0]


def test_a_stated_epsilon_is_checked_against_the_mechanism() -> None:
    exact = AsIs(claim="1e-5:user:add_or_remove", **DP_SGD).promise.epsilon
    for stated, told in ((1.83, True), (8.0, True), (exact, False)):
        promise = AsIs(claim=f"{stated}:1e-5:user:add_or_remove", **DP_SGD).promise
        assert promise.epsilon == exact
        assert (f"ε = {stated:g} was stated" in "".join(promise.conditions)) == told
    for stated in (1.82, 0.0):
        with pytest.raises(UsageError, match=r"gives 1\.8283 at δ = 1e-05") as refused:
            AsIs(claim=f"{stated}:1e-5:user:add_or_remove", **DP_SGD)
        assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match=r"gives 2\.8\d+ .*\(replace\)"):
        AsIs(claim="2:1e-5:user:replace", **DP_SGD)
    with pytest.raises(UsageError, match=r"gives 2\.\d+ at δ = 1e-06"):
        AsIs(claim="1.83:1e-6:user:add_or_remove", **DP_SGD)


DP_FTRL: dict[str, Any] = {**DP_SGD, "bands": 4, "sampling_probability": 0.04}
CAPPED: dict[str, Any] = {"noise_multiplier": 5.0, "steps": 100, "bands": 8, "participations": 10}


@pytest.mark.parametrize("relation", ["add_or_remove", "replace"])
@pytest.mark.parametrize(
    ("parameters", "due"),
    [(DP_FTRL, Gaussians(1.0, 250, 0.04)), (CAPPED, Gaussians(5.0, 10))],
)
def test_banded_noise_costs_what_its_participations_do(
    parameters: dict[str, Any], due: Gaussians, relation: str
) -> None:
    promise = AsIs(claim=f"1e-5:user:{relation}", **parameters).promise
    assert promise.epsilon == epsilon(Mechanism((due,), relation), 1e-5)
    assert promise.accounting is not None
    assert recompute(promise.accounting) == promise.epsilon
    (term,) = promise.accounting["terms"]
    assert (term["kind"], term["count"]) == ("banded_sums", due.count)
    assert term["column"] == list(square_root(parameters["bands"]))
    assert "DP-FTRL: banded noise" in promise.theorem and "DP-SGD" not in promise.theorem
    assert "in which depends on no other unit" in promise.conditions[0]


def test_one_sampled_band_is_dp_sgd() -> None:
    one, plain = (
        AsIs(claim="1e-5:user:add_or_remove", **DP_SGD, bands=bands).promise for bands in (1, None)
    )
    assert one == plain
    capped = AsIs(claim="1e-5:user:add_or_remove", **{**CAPPED, "bands": 1}).promise
    assert capped.accounting is not None and capped.accounting["terms"][0]["column"] == [1.0]


def test_what_cannot_be_meant_is_refused_in_one_line() -> None:
    claim = "1e-5:user:replace"
    refusals(
        lambda given: AsIs(**given),
        [
            ({"claim": "8"}, "EPSILON:DELTA:UNIT:RELATION"),
            ({"claim": claim}, "EPSILON:DELTA:UNIT:RELATION"),
            ({"claim": "8:1e-5:part:replace"}, "the unit can be record or user"),
            ({"claim": "8:1e-5:user:removed"}, "the relation add_or_remove or replace"),
            ({"claim": "nan:1e-5:user:replace"}, "ε must be at least 0"),
            ({"claim": "8:1:user:replace"}, "δ in"),
            ({"claim": "8:nan:user:replace"}, "δ in"),
            (DP_SGD, "claim=DELTA:UNIT:RELATION"),
            ({**DP_SGD, "claim": "user:replace"}, "EPSILON: may be left out"),
            ({**DP_SGD, "claim": "0:user:replace"}, "needs a δ above 0"),
            ({**DP_SGD, "steps": None, "claim": claim}, "add steps"),
            ({"steps": 5, "claim": f"8:{claim}"}, "add noise_multiplier and sampling_prob"),
            ({**DP_SGD, "steps": 0, "claim": claim}, "steps is 0"),
            ({**DP_SGD, "noise_multiplier": 0.0, "claim": claim}, "noise_multiplier is 0"),
            ({**DP_SGD, "sampling_probability": 1.5, "claim": claim}, "is 1.5"),
            ({**CAPPED, "sampling_probability": 0.5}, "a cap of DP-FTRL without sampling"),
            ({**CAPPED, "bands": None}, "give bands with it"),
            ({**CAPPED, "participations": 14, "claim": claim}, "leave a record 13 sums"),
            ({**CAPPED, "steps": None}, "add steps"),
            ({**CAPPED, "participations": None}, "add sampling_probability"),
            ({**DP_FTRL, "bands": 1001, "claim": claim}, "steps is 1000; lower bands"),
            ({**DP_FTRL, "bands": 0}, "bands is 0"),
            ({"bands": 4}, "add noise_multiplier and sampling_probability and steps"),
        ],
    )
