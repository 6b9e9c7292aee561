"""ε of Laplace answers: never below the exact composition, and near it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.accounting import laplace_epsilon, laplace_scale

GRID = 4e-4


def exact_epsilon(scale: float, count: int, delta: float, teachers: int = 1) -> float:
    """ε at δ of `count` answers that move two coordinates by `teachers` each, by convolution.

    The privacy loss of one coordinate, shift s in scales: s with mass 1/2, −s with mass e^(−s)/2,
    and between them density e^(−(s − l)/2)/4 of a loss l.
    """
    s = teachers / scale
    size = round(s / GRID)
    losses = np.arange(-size, size + 1) * GRID
    pmf = np.exp(-(s - losses) / 2) / 4 * GRID
    pmf[[0, -1]] /= 2
    pmf[0] += math.exp(-s) / 2
    pmf[-1] += 0.5
    whole = np.array([1.0])
    for _ in range(2 * count):
        whole = np.convolve(whole, pmf)
    at = (np.arange(len(whole)) - (len(whole) - 1) / 2) * GRID
    low, high = 0.0, 2 * count * s
    for _ in range(60):
        middle = (low + high) / 2
        over = at > middle
        if (whole[over] * -np.expm1(middle - at[over])).sum() > delta:
            low = middle
        else:
            high = middle
    return high


@pytest.mark.parametrize("teachers", [1, 2])
@pytest.mark.parametrize(
    ("scale", "count", "delta"), [(1.0, 1, 0.05), (2.0, 1, 1e-3), (6.0, 4, 1e-3), (10.0, 12, 1e-4)]
)
def test_it_is_above_the_exact_composition_and_near_it(
    scale: float, count: int, delta: float, teachers: int
) -> None:
    exact = exact_epsilon(scale, count, delta, teachers)
    bound = laplace_epsilon(scale, count, delta, teachers)
    assert exact * 0.999 <= bound <= exact * 1.25


def test_it_never_costs_more_than_the_pure_bound() -> None:
    assert laplace_epsilon(5.0, 5, 0.0) == pytest.approx(2.0)
    assert laplace_epsilon(5.0, 5, 0.0, 3) == pytest.approx(6.0)
    assert laplace_epsilon(0.1, 1, 1e-12) <= 20.0


@pytest.mark.parametrize("target", [0.1, 3.0, 8.0])
@pytest.mark.parametrize("teachers", [1, 3])
def test_the_scale_is_the_least_that_keeps_the_target(target: float, teachers: int) -> None:
    scale = laplace_scale(target, 200, 1e-5, teachers)
    assert laplace_epsilon(scale, 200, 1e-5, teachers) <= target
    assert laplace_epsilon(scale * (1 - 1e-6), 200, 1e-5, teachers) > target


def test_nobody_asked_nothing_said() -> None:
    assert laplace_epsilon(1.0, 0, 1e-5) == laplace_epsilon(1.0, 9, 1e-5, 0) == 0.0
    assert laplace_epsilon(0.0, 1, 1e-5) == math.inf
