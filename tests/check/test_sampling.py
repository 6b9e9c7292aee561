"""Checks of batches drawn by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.check.checks import sampling
from audit.check.outcome import Outcome, Status
from tests.check.handmade import clear

T, M, Q = 150, 80, 0.2


def poisson(q: float = Q, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((T, M)) < q


def both(counts: Any) -> tuple[Outcome, Outcome]:
    run = clear(counts, q=Q)
    return sampling.rate(run, True), sampling.poisson(run, True)


def test_poisson_batches_pass() -> None:
    for seed in range(5):
        assert not any(outcome.failed for outcome in both(poisson(seed=seed)))


def test_a_rate_is_found_from_ten_percent_on() -> None:
    rate, _ = both(poisson(1.15 * Q))
    assert rate.failed
    assert rate.value == pytest.approx(1.15 * Q, rel=0.04)
    assert rate.detects == pytest.approx(0.104, abs=1e-3)
    assert not any(both(poisson(1.02 * Q, seed))[0].failed for seed in range(10))


def test_batches_of_one_size_are_not_poisson() -> None:
    counts = np.zeros((T, M))
    random = np.random.default_rng(0)
    for row in counts:
        row[random.choice(M, 16, replace=False)] = 1
    rate, scatter = both(counts)
    assert not rate.failed
    assert (scatter.failed, scatter.value) == (True, 0.0)


def test_a_unit_never_drawn_is_not_poisson() -> None:
    """Batches scatter as they should; the units do not."""
    counts = poisson(Q * M / (M - 20))
    counts[:, :20] = False
    rate, scatter = both(counts)
    assert not rate.failed
    assert scatter.failed


def test_a_unit_drawn_in_runs_is_not_poisson() -> None:
    """Every step repeats half of the step before; sizes and rates are right."""
    random, counts = np.random.default_rng(0), poisson()
    for t in range(1, T):
        kept = random.random(M) < 0.2
        counts[t, kept] = counts[t - 1, kept]
    assert both(counts)[1].failed


def test_batches_that_cannot_be_read_are_not_read() -> None:
    run = clear(poisson(), q=Q)
    assert sampling.rate(run, False).status == Status.NOT_READ
    assert sampling.poisson(run, False).status == Status.NOT_READ


def test_told_batches_need_no_reading() -> None:
    """Automatic clipping: every contribution is another; the blanks come last."""
    drawn = poisson()
    blanks = np.random.default_rng(1).random((T, 40)) < 0.9
    told = np.concatenate([drawn, blanks], axis=1)
    present = [True] * M + [False]
    counts = np.concatenate([0.37 * drawn, np.zeros((T, 1))], axis=1)
    run = clear(counts, q=Q, present=present, included=told)
    assert (run.batches == drawn).all()
    assert not sampling.rate(run, True).failed
    assert not sampling.poisson(run, True).failed


def test_the_realised_probability_is_the_one_that_counts() -> None:
    run = clear(poisson(0.3), q=Q, sampling_probability=0.3)
    assert not sampling.rate(run, True).failed
    assert sampling.rate(clear(poisson(0.3), q=Q), True).failed
