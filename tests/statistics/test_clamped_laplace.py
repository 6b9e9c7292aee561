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


@pytest.mark.parametrize("alpha", [1.5, 2.0, 4.0])
@pytest.mark.parametrize(("scale", "floor"), [(0.5, 0.1), (0.2, 0.2), (2.0, 1e-3), (0.1, 0.6)])
def test_is_the_sum_over_all_cells(scale: float, floor: float, alpha: float) -> None:
    draw = np.random.default_rng(0)
    for _ in range(4):
        p, q = draw.dirichlet(np.ones(3), size=2)
        found = float(least_divergence(p, q, scale, floor, alpha))
        summed = by_cells(p, q, scale, floor, alpha)
        assert summed <= found + 1e-9  # cells hide a little
        assert found == pytest.approx(summed, rel=0.03, abs=1e-6)


@given(means, means, st.floats(0.05, 5), st.floats(1e-4, 1), st.sampled_from([1.2, 2.0, 6.0]))
def test_between_zero_and_what_the_noised_mean_itself_tells(
    p: np.ndarray, q: np.ndarray, scale: float, floor: float, alpha: float
) -> None:
    found = float(least_divergence(p, q, scale, floor, alpha))
    whole = sum(laplace_divergence(abs(x - y) / scale, alpha) for x, y in zip(p, q, strict=True))
    assert 0.0 <= found <= whole + 1e-9
    assert float(least_divergence(p, p, scale, floor, alpha)) == pytest.approx(0.0, abs=1e-12)


def test_many_tokens_and_a_low_floor_tell_as_much_as_no_clamp() -> None:
    """Two parts sure of different tokens: 2 g(1/kb), the charge of the mechanism."""
    k, scale = 4, 0.3
    p, q = np.zeros(400), np.zeros(400)
    p[0], p[1], q[1], q[2] = 1 / k, 1 - 1 / k, 1 - 1 / k, 1 / k
    worst = 2 * laplace_divergence(1 / (k * scale), 2.0)
    assert 0.98 * worst < least_divergence(p, q, scale, 1e-9, 2.0) <= worst * (1 + 1e-9)
    # a floor of one scale hides what is below it
    assert least_divergence(p, q, scale, scale, 2.0) < 0.75 * worst


def test_small_noise_does_not_overflow() -> None:
    p, q = np.eye(6)[:2]
    for scale in (1e-2, 1e-4):
        found = float(least_divergence(p, q, scale, 1e-9, 2.0))
        assert math.isfinite(found) and found > 0.5 / scale


@given(means, means, st.floats(0.2, 2))
def test_what_is_off_is_taken_off(p: np.ndarray, q: np.ndarray, scale: float) -> None:
    error = 1e-3
    least = float(least_divergence(p, q, scale, 0.01, 2.0, error))
    for signs in itertools.product((-1, 0, 1), repeat=3):
        moved = p * np.exp(np.multiply(signs, error / 2))
        moved /= moved.sum()  # by at most error / 2
        assert least <= float(least_divergence(moved, q, scale, 0.01, 2.0)) + 1e-12
    assert least <= float(least_divergence(p, q, scale, 0.01, 2.0))


@pytest.mark.parametrize(
    ("scale", "floor", "alpha", "error"),
    [(0.0, 1.0, 2.0, 0.0), (1.0, 0.0, 2.0, 0.0), (1.0, 1.0, 1.0, 0.0), (1.0, 1.0, 2.0, -1.0)],
)
def test_bad_settings_are_refused(scale: float, floor: float, alpha: float, error: float) -> None:
    with pytest.raises(ValueError, match="must"):
        least_divergence([0.5, 0.5], [0.5, 0.5], scale, floor, alpha, error)


@pytest.mark.parametrize("alpha", [2.0, 8.0])
@pytest.mark.parametrize(("scale", "floor"), [(0.02, 0.002), (0.1, 0.01), (0.5, 0.1), (0.1, 0.6)])
def test_two_coordinates_tell_only_whether_both_are_at_the_floor(
    scale: float, floor: float, alpha: float
) -> None:
    """Then all is known: two outcomes, in 60 digits, where logs of floats would cancel."""
    p, q = (0.9, 0.1), (0.1, 0.9)
    with mpmath.workdps(60):
        below = [
            mpmath.fprod(
                0.5 * mpmath.exp((floor - m) / mpmath.mpf(scale))
                if floor < m
                else 1 - 0.5 * mpmath.exp((m - floor) / mpmath.mpf(scale))
                for m in map(mpmath.mpf, means)
            )
            for means in (p, q)
        ]
        pairs = ((below[0], below[1]), (1 - below[0], 1 - below[1]))
        moment = mpmath.fsum(x**alpha * y ** (1 - alpha) for x, y in pairs)
        exact = float(mpmath.log(moment) / (alpha - 1))
    found = float(least_divergence(p, q, scale, floor, alpha))
    assert found <= exact + 1e-9
    assert found == pytest.approx(exact, abs=1e-8)


def test_what_may_be_off_is_taken_away_whole() -> None:
    """Both means of each release read too high by the error: the bound stays below the truth."""
    p, q, error, scale, floor = np.array([1.0, 0, 0]), np.array([0, 1.0, 0]), 0.01, 0.05, 0.2
    for alpha in (4.0, 8.0):
        truth = float(least_divergence(p, q, scale, floor, alpha))
        high = math.exp(error)
        read = float(least_divergence(p * high, q * high, scale, floor, alpha))
        assert read > truth
        bound = float(least_divergence(p * high, q * high, scale, floor, alpha, error))
        assert truth - 0.1 < bound <= truth
