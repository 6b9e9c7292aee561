"""The claim, tested on the stated mechanism's trade-off curve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from audit.accounting import Gaussians, Mechanism, epsilon
from audit.check.checks.claim import LEVEL, ClaimTest, claim
from audit.check.dirac import separate
from audit.check.stated import Claim
from audit.check.units import Floats
from audit.statistics.claim_curve import gaussian, p_value
from audit.statistics.claim_guesses import guess_count
from tests.check.handmade import C, run_of
from tests.refusals import refusals

M, STEPS, Q = 96, 60, 0.05


def outcome(noise: float, q: float = Q, seed: int = 0, stated: float = 1.0) -> ClaimTest:
    """Units with fair coins under this noise and rate; stated are `stated` and Q."""
    random, units = np.random.default_rng(seed), separate([10.0 * C] * M)
    present = random.random(M) < 0.5
    counts = (random.random((STEPS, M)) < q) & present
    drawn: Floats = noise * C * random.standard_normal((STEPS, sum(units.sizes)))
    sums = counts @ units.clipped(C) + drawn
    return claim(run_of(sums, units, noise_multiplier=stated, q=Q, present=present))


def test_the_test_is_that_of_the_curve() -> None:
    found = outcome(0.05)
    mechanism = Mechanism((Gaussians(1.0, STEPS, Q),), "add_or_remove")
    assert found.epsilon == epsilon(mechanism, 1e-5)
    assert (found.coins, found.sampling_probability, found.steps) == (M, Q, STEPS)
    assert found.right == found.guesses  # almost without noise every guess is right
    assert found.needed is not None
    assert found.p < LEVEL
    assert found.refuted


def test_without_sampling_it_is_the_gaussian_curves() -> None:
    """One step, everybody in it: the mechanism is N(1, 1) against N(0, 1)."""
    random, units = np.random.default_rng(0), separate([10.0 * C] * M)
    present = random.random(M) < 0.5
    sums = (present @ units.clipped(C))[None] + C * random.standard_normal((1, sum(units.sizes)))
    found = claim(run_of(sums, units, noise_multiplier=1.0, q=1.0, present=present))
    side, needed = guess_count(gaussian(1.0), M, LEVEL)
    assert (found.guesses, found.needed) == (2 * side, needed)
    assert found.p == pytest.approx(p_value(gaussian(1.0), M, found.guesses, found.right))
    assert found.area.due == pytest.approx(0.5 * (1 + math.erf(0.5)), abs=1e-4)


def test_the_truth_is_not_refuted() -> None:
    for seed in range(4):
        found = outcome(1.0, seed=seed)
        assert not found.refuted and found.area.p > 1e-3


def test_a_wrong_coin_is_a_wrong_guess() -> None:
    """Where the units that are present score lowest, hardly a guess is right."""
    random, units = np.random.default_rng(0), separate([10.0 * C] * M)
    present = random.random(M) < 0.5
    counts = (random.random((STEPS, M)) < 0.5) & ~present
    run = run_of(counts @ units.clipped(C), units, noise_multiplier=1.0, q=Q, present=present)
    assert (claim(run).right, claim(run).p) == (0, 1.0)


def test_a_statement_out_of_range_is_refused() -> None:
    wrong: list[dict[str, Any]] = [
        *({"noise_multiplier": 0.0}, {"max_norm": 1.0}, {"max_norm": math.inf}, {"steps": 5}),
        *({"sampling_probability": 0.0009}, {"sampling_probability": 1.5}, {"unit": "part"}),
    ]
    refusals(lambda given: Claim(**given), [(given, next(iter(given))) for given in wrong])


@pytest.mark.calibration
def test_half_the_noise_is_often_seen() -> None:
    assert sum(outcome(1.0, seed=seed).refuted for seed in range(200)) <= 4
    areas = [outcome(0.5, seed=seed).area.p < LEVEL for seed in range(50)]
    assert sum(areas) >= 25
