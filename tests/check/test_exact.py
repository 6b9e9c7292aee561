"""Exact checks on sums made by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from audit.check.catalogue import Check
from audit.check.causal_lm import texts
from audit.check.checks import exact
from audit.check.dirac import WIDTH, separate, tied
from audit.check.outcome import Status
from audit.check.units import Floats
from tests.check.handmade import QUIET, C, clear, run_of


def test_the_gradients_are_what_the_units_say() -> None:
    units = separate([10.0 * C, C / 2])
    np.testing.assert_allclose(units.norms, [10 * C, C / 2], rtol=1e-6)
    np.testing.assert_allclose(units.gradients[0][[0, WIDTH]], 10 * C / math.sqrt(2), rtol=1e-6)
    assert np.count_nonzero(units.gradients) == 4
    np.testing.assert_allclose(np.linalg.norm(units.clipped(C), axis=1), [C, C / 2], rtol=1e-6)
    np.testing.assert_allclose(tied([3.0]).norms, [3.0], rtol=1e-6)
    assert tied([3.0]).sizes == (WIDTH,)


def test_three_records_have_the_gradient_of_one() -> None:
    """A unit's gradient is the mean over its records."""
    np.testing.assert_allclose(separate([6.0], records=3).norms, [6.0], rtol=1e-6)


def test_inclusion_is_read_off_the_sums() -> None:
    counts = np.array([[0, 1, 2], [1, 1, 0]])
    run = clear(counts)
    np.testing.assert_allclose(run.inclusion, counts, atol=1e-12)
    assert (run.batches == counts).all()
    np.testing.assert_allclose(run.deviations, QUIET)
    np.testing.assert_allclose(run.contributions, counts * C, atol=1e-6)


def test_inclusion_of_overlapping_texts_is_read() -> None:
    units = texts(6)
    counts = np.array([[0, 1, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0]])
    run = clear(counts, units)
    np.testing.assert_allclose(run.inclusion, counts, atol=1e-9)
    norms = np.linalg.norm(units.clipped(C), axis=1)
    np.testing.assert_allclose(run.contributions, counts * norms, atol=1e-9)
    shift = np.random.default_rng(0).normal(size=(400, run.sums.shape[1])) * QUIET * C
    spread = run_of(shift, units).inclusion.std(axis=0)
    np.testing.assert_allclose(spread, run.deviations, rtol=0.18)


def test_inclusion_may_be_off_by_eight_deviations() -> None:
    """A unit is in a sum once or not at all."""
    for off, holds in ((7.9, True), (8.1, False), (-8.1, False)):
        for count in (0.0, 1.0):
            outcome = exact.inclusion(clear([[1, count + off * QUIET, 0]]))
            assert outcome.failed is not holds
            assert outcome.value == pytest.approx(abs(off), rel=0.01)
    assert all(exact.inclusion(clear([[0, 1, c]])).failed for c in (2.0, -1.0, 0.5, math.nan))


def test_arithmetic_may_add_its_error() -> None:
    counts = [[1.06, 0.0, 1.0]]
    assert exact.inclusion(clear(counts)).failed
    assert not exact.inclusion(clear(counts, tolerance=0.03)).failed
    assert not exact.norms(Check.CLIPPING, clear(counts, tolerance=0.03)).failed


def test_a_contribution_may_exceed_the_norm_by_noise() -> None:
    for most, holds in ((0.5, True), (1.039, True), (1.041, False)):
        outcome = exact.norms(Check.CLIPPING, clear([[0, 1, most]]))
        assert outcome.failed is not holds
        assert outcome.value == pytest.approx(max(1.0, most))
        assert outcome.due == "at most 1.04"


def test_a_contribution_beside_the_gradients_direction_counts() -> None:
    """One of two tensors carries it all: the projection alone would be 1.3 C / √2."""
    sums = np.zeros((1, 2 * WIDTH))
    sums[0, 0] = 1.3 * C
    outcome = exact.norms(Check.CLIPPING, run_of(sums, separate([10 * C])))
    assert (outcome.failed, outcome.value) == (True, pytest.approx(1.3))


def test_an_absent_unit_is_in_no_sum() -> None:
    for count, holds in ((0.039, True), (0.041, False), (1.0, False)):
        run = clear([[0, 1, count]], present=[True, True, False])
        assert exact.absent(run).failed is not holds
        assert not exact.inclusion(run).failed


def test_every_step_is_a_release() -> None:
    run = clear([[0, 1], [0, 0]])
    fewer = replace(run, trial=replace(run.trial, steps=3))
    assert not exact.releases((run, run)).failed
    outcome = exact.releases((run, fewer, run))
    assert (outcome.status, outcome.value, outcome.due) == (Status.FAILED, 2, "3")


def path_of(steps: int, decay: float = 0.0, momentum: float = 0.0) -> tuple[Floats, Floats]:
    """(sums, weights) of plain SGD in PyTorch at a learning rate of 0.1 and qN = 4."""
    weight = torch.nn.Parameter(torch.randn(2 * WIDTH, generator=torch.Generator().manual_seed(0)))
    optimizer = torch.optim.SGD([weight], lr=0.1, weight_decay=decay, momentum=momentum)
    sums, path = [], [weight.detach().clone()]
    for step in range(steps):
        weight.grad = torch.randn(2 * WIDTH, generator=torch.Generator().manual_seed(step + 1))
        sums.append(weight.grad * 4.0)
        optimizer.step()
        path.append(weight.detach().clone())
    return torch.stack(sums).numpy(), torch.stack(path).numpy()


def updated(sums: Floats, path: Floats, **more: Any) -> Any:
    run = run_of(sums, separate([C] * 8), weights=torch.tensor(path), **more)
    assert run.trial.expected_batch == 4.0
    return exact.update(replace(run, trial=replace(run.trial, learning_rate=0.1)))


def test_only_plain_sgd_passes_the_update() -> None:
    outcome = updated(*path_of(10))
    assert (outcome.status, outcome.value < 3.0) == (Status.PASSED, True)
    assert updated(*path_of(10, decay=1e-4)).failed
    assert updated(*path_of(10, momentum=0.1)).failed


def test_only_a_few_roundings_are_allowed() -> None:
    sums, path = path_of(1)
    unit = np.finfo(np.float32).eps * np.abs(path).max(axis=0)
    for many, holds in ((6, True), (12, False)):
        off = path.astype(np.float64)
        off[1] = off[0] - 0.1 * sums[0] / 4.0 + many * unit
        assert updated(sums, off).failed is not holds


def test_a_schedule_that_is_stated_is_followed() -> None:
    sums, path = path_of(3)
    assert not updated(sums, path, learning_rates=[0.1, 0.1, 0.1]).failed
    assert updated(sums, path, learning_rates=[0.1, 0.1, 0.2]).failed
    assert updated(sums, path, learning_rates=[0.1, 0.1]).status == Status.NOT_READ


def test_an_unrecorded_update_is_not_read() -> None:
    outcome = exact.update(clear([[0, 1]]))
    assert (outcome.status, outcome.value) == (Status.NOT_READ, None)


def test_an_infinite_gradient_may_add_up_to_c() -> None:
    sums = np.zeros((2, 2 * WIDTH))
    for value, holds in ((C, True), (1.1 * C, False), (math.inf, False), (math.nan, False)):
        sums[1, 0] = value
        outcome = exact.infinite(run_of(sums, separate([math.inf, C])), "vectors")
        assert outcome.failed is not holds
    assert outcome.value == math.inf


def test_an_engine_that_stops_passes_with_a_remark() -> None:
    outcome = exact.infinite("NotFiniteError: a loss", "vectors")
    assert outcome.status == Status.PASSED
    assert "NotFiniteError: a loss" in outcome.remark


def test_the_texts_can_be_told_apart() -> None:
    units = texts(32)
    clipped = units.clipped(float(np.median(units.norms)))
    assert np.linalg.cond(clipped @ clipped.T) < 100
