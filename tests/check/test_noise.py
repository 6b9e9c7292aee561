"""Checks of noise drawn by hand: what is right passes, faults of a known size are found."""

from __future__ import annotations

import numpy as np
import pytest

from audit.check import outcome as outcomes
from audit.check.catalogue import Check
from audit.check.checks import noise
from audit.check.dirac import WIDTH
from audit.check.outcome import Outcome, Status, detectable
from audit.check.units import Floats
from tests.check.handmade import clear, noise_of

STEPS = 94  # 94 · 510 values: about 48,000


def drawn(seed: int = 0, steps: int = STEPS) -> Floats:
    return np.random.default_rng(seed).standard_normal((steps, 2 * WIDTH))


def failing(values: Floats) -> set[str]:
    return {o.check.code for o in noise.alone(noise_of(values)) if o.failed}


def test_right_noise_passes() -> None:
    for seed in range(5):
        made = noise.alone(noise_of(drawn(seed)))
        assert [o.check.code for o in made] == ["K7", "K8", "K9", "K10"]
        assert all(o.status == Status.PASSED for o in made)


def test_another_scale_is_found() -> None:
    for scale in (0.9, 0.95, 1.05, 1.1):
        outcome = noise.scale(noise_of(scale * drawn()))
        assert outcome.failed
        assert outcome.value == pytest.approx(scale, abs=0.01)
        assert failing(scale * drawn()) == {"K7"}


def found(scale: float, seeds: int) -> float:
    """The share of examinations that find this scale."""
    runs = (noise_of(scale * drawn(seed)) for seed in range(seeds))
    return float(np.mean([noise.scale(run).failed for run in runs]))


def test_what_is_called_detectable_is_found() -> None:
    """1.9 % of the deviation at 48,000 values, nine times in ten; 1 % seldom."""
    detects = noise.scale(noise_of(drawn())).detects
    assert detects == pytest.approx(0.0189, abs=1e-4)
    assert detectable(1.0) == pytest.approx(5.7, abs=0.01)
    assert found(1.0 - detects, 40) == pytest.approx(0.9, abs=0.12)
    assert found(0.99, 20) < 0.3 and found(1.01, 20) < 0.3


def test_faults_of_one_tensor_are_found() -> None:
    one = drawn()
    one[:, WIDTH:] *= 0.93
    outcome = noise.scale(noise_of(one))
    assert (outcome.failed, outcome.quantity) == (True, "noise / σC, tensor 2")
    assert outcome.value == pytest.approx(0.93, abs=0.01)
    one = drawn()
    one[6] = 0.0
    outcome = noise.scale(noise_of(one))
    assert (outcome.quantity, outcome.value) == ("noise / σC, step 7", 0.0)


def test_no_noise_fails_without_warnings() -> None:
    assert {"K7", "K8"} <= failing(np.zeros((STEPS, 2 * WIDTH)))


def test_what_is_not_gaussian_is_found() -> None:
    random = np.random.default_rng(0)
    uniform = random.uniform(-(3**0.5), 3**0.5, (STEPS, 2 * WIDTH))
    assert failing(uniform) == {"K8"}
    outcome = noise.shape(noise_of(uniform))
    assert outcome.value == pytest.approx(1.8, abs=0.02)
    assert outcome.detects == pytest.approx(5.85 * (24 / uniform[:, 2:].size) ** 0.5 / 3, rel=0.01)
    assert failing(random.laplace(0, 0.5**0.5, (STEPS, 2 * WIDTH))) >= {"K8"}
    skewed = random.gamma(4.0, 0.5, (STEPS, 2 * WIDTH)) - 2.0
    assert "K8" in failing(skewed)


def test_steps_that_share_noise_are_found() -> None:
    again = drawn()
    again[50] = again[3]
    outcome = noise.over_steps(noise_of(again))
    assert (outcome.failed, outcome.value) == (True, pytest.approx(1.0))
    moving = drawn(steps=STEPS + 1)
    assert failing((moving[1:] - 0.1 * moving[:-1]) / 1.01**0.5) == {"K9"}
    assert failing((moving[1:] + 0.01 * moving[:-1]) / 1.0001**0.5) == set()


def test_tensors_that_share_noise_are_found() -> None:
    same = drawn()
    same[:, WIDTH:] = 0.1 * same[:, :WIDTH] + 0.99**0.5 * same[:, WIDTH:]
    assert failing(same) == {"K10"}
    assert noise.over_tensors(noise_of(same)).value == pytest.approx(0.1, abs=0.03)


def test_runs_that_share_noise_are_found() -> None:
    one, other = drawn(1), drawn(2)
    assert not noise.over_runs(noise_of(one), noise_of(other)).failed
    outcome = noise.over_runs(noise_of(one), noise_of(0.1 * one[:80] + 0.99**0.5 * other[:80]))
    assert (outcome.failed, outcome.value) == (True, pytest.approx(0.1, abs=0.03))


def test_noise_that_follows_the_batch_is_found() -> None:
    counts = np.random.default_rng(0).integers(0, 2, (150, 16))
    run = clear(counts)
    for follows in (False, True):
        scale = (1.0 + 0.1 * counts.sum(axis=1, keepdims=True)) if follows else 1.0
        run.__dict__["sums"] = run.sums.copy()
        run.__dict__["sums"][:, 16:WIDTH] = drawn(steps=150)[:, 16:WIDTH] * scale * 1e-3
        run.__dict__.pop("quiet", None)
        outcome = noise.with_batch(run, True)
        assert outcome.failed is follows
    assert noise.with_batch(run, False).status == Status.NOT_READ


def test_next_to_nothing_cannot_be_read() -> None:
    made = noise.alone(noise_of(drawn(steps=1)))
    assert all(o.status == Status.NOT_READ for o in made)


def outcome_of(*ps: float) -> Outcome:
    return outcomes.tested(Check.SCALE, "vectors", "", 0.0, "", ps)


def test_p_values_are_adjusted() -> None:
    assert outcome_of(0.4, 1e-5).p == pytest.approx(2e-5)
    assert not outcome_of(0.4, 1e-5).failed
    assert outcome_of(0.4, 0.9e-5, 1.0).p == pytest.approx(2.7e-5)
    assert outcome_of(0.4, 0.4e-5).failed
    assert outcome_of(1.0, float("nan")).failed
