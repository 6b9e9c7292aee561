"""The divergence of a noised, clamped, normalised vector: against sums over fine cells."""

from __future__ import annotations

import itertools
import math

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import laplace

from audit.accounting import laplace_divergence
from audit.statistics.clamped_laplace import least_divergence

means = st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3).map(
    lambda x: np.array(x) / sum(x) if sum(x) > 1e-3 else np.full(3, 1 / 3)
)


def cells(mean: float, scale: float, floor: float, n: int) -> np.ndarray:
    """Chances of the atom at the floor, and of n cells above it."""
    edges = np.concatenate([floor + 14 * scale * np.linspace(0, 1, n) ** 2, [np.inf]])
    cdf = laplace.cdf(edges, loc=mean, scale=scale)
    return np.concatenate([[cdf[0]], np.diff(cdf)])


def by_cells(p: np.ndarray, q: np.ndarray, scale: float, floor: float, alpha: float) -> float:
    """All cells of three coordinates; those with fewer than two atoms are one outcome."""
    n = 60
    laws = [
        np.einsum("i,j,k->ijk", *[cells(m, scale, floor, n) for m in vector]) for vector in (p, q)
    ]
    known = (np.indices(laws[0].shape) == 0).sum(axis=0) >= 2
    merged = [np.append(law[known], law[~known].sum()) for law in laws]
    return float(np.log((merged[0] ** alpha * merged[1] ** (1 - alpha)).sum()) / (alpha - 1))


def test_divergence_is_the_sum_over_all_cells() -> None:
    settings = itertools.product(((0.5, 0.1), (0.2, 0.2), (2.0, 1e-3), (0.1, 0.6)), (1.5, 4.0))
    for (scale, floor), alpha in settings:
        draw = np.random.default_rng(0)
        for _ in range(3):
            p, q = draw.dirichlet(np.ones(3), size=2)
            found = float(least_divergence(p, q, scale, floor, alpha))
            summed = by_cells(p, q, scale, floor, alpha)
            assert summed <= found + 1e-9  # cells hide a little
            assert found == pytest.approx(summed, rel=0.03, abs=1e-6), (scale, floor, alpha)


@given(means, means, st.floats(0.05, 5), st.floats(1e-4, 1), st.sampled_from([1.2, 2.0, 6.0]))
def test_divergence_is_below_that_of_the_means(
    p: np.ndarray, q: np.ndarray, scale: float, floor: float, alpha: float
) -> None:
    found = float(least_divergence(p, q, scale, floor, alpha))
    whole = sum(laplace_divergence(abs(x - y) / scale, alpha) for x, y in zip(p, q, strict=True))
    assert 0.0 <= found <= whole + 1e-9
    assert float(least_divergence(p, p, scale, floor, alpha)) == pytest.approx(0.0, abs=1e-12)


def test_many_tokens_and_low_floor_reach_the_charge() -> None:
    """Two parts sure of different tokens: 2 g(1/kb), the charge of the mechanism."""
    k, scale = 4, 0.3
    p, q = np.zeros(400), np.zeros(400)
    p[0], p[1], q[1], q[2] = 1 / k, 1 - 1 / k, 1 - 1 / k, 1 / k
    worst = 2 * laplace_divergence(1 / (k * scale), 2.0)
    assert 0.98 * worst < least_divergence(p, q, scale, 1e-9, 2.0) <= worst * (1 + 1e-9)
    # a floor of one scale hides what is below it
    assert least_divergence(p, q, scale, scale, 2.0) < 0.75 * worst


def log_both_below(means: tuple[float, float], scale: float, floor: float) -> list[mpmath.mpf]:
    """The chances that both of two coordinates are at the floor, and that they are not."""
    below = mpmath.fprod(
        0.5 * mpmath.exp((floor - m) / mpmath.mpf(scale))
        if floor < m
        else 1 - 0.5 * mpmath.exp((m - floor) / mpmath.mpf(scale))
        for m in map(mpmath.mpf, means)
    )
    return [below, 1 - below]


def test_two_coordinates_have_two_outcomes() -> None:
    """Both at the floor, or not: in 60 digits, where logs of floats would cancel."""
    settings = itertools.product(((0.02, 0.002), (0.1, 0.01), (0.5, 0.1), (0.1, 0.6)), (2.0, 8.0))
    for (scale, floor), alpha in settings:
        p, q = (0.9, 0.1), (0.1, 0.9)
        with mpmath.workdps(60):
            pairs = zip(*(log_both_below(x, scale, floor) for x in (p, q)), strict=True)
            moment = mpmath.fsum(x**alpha * y ** (1 - alpha) for x, y in pairs)
            exact = float(mpmath.log(moment) / (alpha - 1))
        found = float(least_divergence(p, q, scale, floor, alpha))
        assert found <= exact + 1e-9
        assert found == pytest.approx(exact, abs=1e-8), (scale, floor, alpha)


def test_small_noise_does_not_overflow() -> None:
    p, q = np.eye(6)[:2]
    for scale in (1e-2, 1e-4):
        found = float(least_divergence(p, q, scale, 1e-9, 2.0))
        assert math.isfinite(found) and found > 0.5 / scale


@given(means, means, st.floats(0.2, 2))
def test_bound_is_below_all_within_the_error(p: np.ndarray, q: np.ndarray, scale: float) -> None:
    error = 1e-3
    least = float(least_divergence(p, q, scale, 0.01, 2.0, error))
    for signs in itertools.product((-1, 0, 1), repeat=3):
        moved = p * np.exp(np.multiply(signs, error / 2))
        moved /= moved.sum()  # by at most error / 2
        assert least <= float(least_divergence(moved, q, scale, 0.01, 2.0)) + 1e-12
    assert least <= float(least_divergence(p, q, scale, 0.01, 2.0))


def test_bound_of_high_readings_is_below_the_truth() -> None:
    """Both means of each release read too high by the error: the bound stays below the truth."""
    p, q, error, scale, floor = np.array([1.0, 0, 0]), np.array([0, 1.0, 0]), 0.01, 0.05, 0.2
    for alpha in (4.0, 8.0):
        truth = float(least_divergence(p, q, scale, floor, alpha))
        high = math.exp(error)
        read = float(least_divergence(p * high, q * high, scale, floor, alpha))
        assert read > truth
        bound = float(least_divergence(p * high, q * high, scale, floor, alpha, error))
        assert truth - 0.1 < bound <= truth
