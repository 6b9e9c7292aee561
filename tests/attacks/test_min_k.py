"""Min-K% and Min-K%++, and the moments that the latter needs, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attacks.scores.min_k import min_k, min_k_plus_plus
from audit.core.language_model import moments_of


def test_each_token_is_compared_with_its_own_distribution() -> None:
    log_probs = np.array([-1.0, -9.0, -2.0, -4.0])
    moments = np.array([[-2.0, -9.0, -5.0, -3.0], [1.0, 3.0, 2.0, 0.5]])
    # standardised: 1, 0, 1.5, -2
    assert min_k_plus_plus(log_probs, moments, 0.25) == -2.0
    assert min_k_plus_plus(log_probs, moments, 0.5) == -1.0
    assert min_k_plus_plus(log_probs, moments, 1.0) == 0.125


def test_deviations_that_are_rounding_errors_do_not_blow_up() -> None:
    flat = np.array([[-2.0], [0.0]])
    assert min_k_plus_plus(np.array([-2.0]), flat, 1.0) == 0.0
    assert abs(min_k_plus_plus(np.array([-2.0 - 1e-7]), flat, 1.0)) < 0.1


def test_min_k_takes_at_least_one_token() -> None:
    values = np.array([-1.0, -5.0, -2.0, -4.0, -3.0])
    assert min_k(values, 0.2) == min_k(values, 0.01) == -5.0
    assert min_k(values, 0.6) == -4.0
    assert min_k(values, 1.0) == -3.0
    assert min_k(np.array([-1.0, -np.inf]), 0.5) == -np.inf


@pytest.mark.parametrize("n", [1, 7, 60, 500])
def test_min_k_averages_the_lowest_of_all(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    for k in (0.1, 0.35, 1.0):
        kept = max(1, int(k * n))
        assert min_k(values, k) == pytest.approx(np.sort(values)[:kept].mean(), abs=1e-12)


def test_moments_are_right_to_a_hundred_thousandth() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(200, 1024, generator=generator, dtype=torch.float64)
    scales = torch.logspace(-4, 2, 200, dtype=torch.float64)[:, None]
    logs = torch.log_softmax(noise * scales, dim=1)  # from flat to nearly certain
    logs = torch.cat([logs, torch.log(torch.eye(3, 1024, dtype=torch.float64))])
    pmf = logs.exp()
    finite = logs.clamp(min=-1e4)
    mean = (pmf * finite).sum(dim=1)
    deviation = (pmf * (finite - mean[:, None]) ** 2).sum(dim=1).sqrt()
    torch.testing.assert_close(moments_of(logs), torch.stack([mean, deviation]), atol=1e-5, rtol=0)
