"""The part of the sums that holds nothing but noise, against dense projections."""

from __future__ import annotations

import numpy as np
import pytest

from audit.check.quiet import complement, coordinates
from audit.check.units import Floats

SIZES, UNITS, STEPS = (7, 12, 21), 5, 3
D = sum(SIZES)


def made(steps: int = STEPS) -> tuple[Floats, Floats, Floats]:
    """(sums, gradients, the dense projection I − P)."""
    random = np.random.default_rng(0)
    gradients = random.normal(size=(UNITS, D)) * random.exponential(size=D)
    projection = np.eye(D) - np.linalg.pinv(gradients) @ gradients
    return random.normal(size=(steps, D)), gradients, projection


def test_the_complement_holds_nothing_of_any_unit() -> None:
    sums, gradients, projection = made()
    counts = np.random.default_rng(1).integers(0, 3, (STEPS, UNITS))
    clean, added = (
        complement(x, gradients, SIZES) for x in (sums, sums + counts @ gradients * 1e3)
    )
    assert clean.values.shape == (STEPS, D - UNITS)
    np.testing.assert_allclose(clean.values, added.values, atol=1e-9)
    np.testing.assert_allclose((clean.values**2).sum(1), ((sums @ projection) ** 2).sum(1))
    rest = np.concatenate(clean.tensors.parts, axis=1)
    np.testing.assert_allclose(rest, sums @ projection, atol=1e-12)


def test_independent_noise_stays_independent_in_the_complement() -> None:
    """Of every direction e_i the basis keeps (I − P) e_i: inner products show it is orthonormal."""
    _, gradients, projection = made()
    basis = complement(np.eye(D), gradients, SIZES).values
    np.testing.assert_allclose(basis.T @ basis, np.eye(D - UNITS), atol=1e-12)
    np.testing.assert_allclose(basis @ basis.T, projection, atol=1e-12)


def test_tensors_have_their_energys_moments() -> None:
    sums, gradients, projection = made()
    tensors = complement(sums, gradients, SIZES).tensors
    edges = np.cumsum((0, *SIZES))
    for i in range(3):
        block = projection[edges[i] : edges[i + 1], edges[i] : edges[i + 1]]
        assert tensors.means[i] == pytest.approx(np.trace(block))
        assert tensors.variances[i] == pytest.approx(2 * (block**2).sum())
    block = projection[edges[2] : edges[2] + 7, :7]  # the first seven places of tensors 1 and 3
    assert tensors.overlaps[2, 0] == pytest.approx(np.trace(block))


def test_moments_are_those_of_simulated_noise() -> None:
    sums, gradients, _ = made(40_000)
    gradients[:, -SIZES[2] :][:, :7] = gradients[:, :7]  # tensors 1 and 3 overlap where they start
    tensors = complement(sums, gradients, SIZES).tensors
    for part, mean, variance in zip(tensors.parts, tensors.means, tensors.variances, strict=True):
        energy = (part**2).sum(axis=1)
        assert energy.mean() == pytest.approx(mean, rel=0.02)
        assert energy.var() == pytest.approx(variance, rel=0.05)
    one, other = tensors.parts[2][:, :7], tensors.parts[0]
    found = (one * other).sum(axis=1)
    assert found.mean() == pytest.approx(tensors.overlaps[2, 0], abs=5 * found.std() / 200)
    assert abs(tensors.overlaps[2, 0]) > 10 * found.std() / 200  # without it, it would be seen


def test_apart_the_unused_coordinates_are_kept() -> None:
    sums = np.arange(3.0 * 6).reshape(3, 6)
    gradients = np.zeros((2, 6))
    gradients[0, 1], gradients[1, [3, 4]] = np.inf, 2.0
    quiet = coordinates(sums, gradients, (2, 4))
    np.testing.assert_array_equal(quiet.values, sums[:, [0, 2, 5]])
    np.testing.assert_array_equal(quiet.tensors.parts[0], sums[:, [0]])
    np.testing.assert_array_equal(quiet.tensors.parts[1], sums[:, [2, 5]])
    assert quiet.tensors.means == (1.0, 2.0)
    assert quiet.tensors.variances == (2.0, 4.0)
    assert quiet.tensors.overlaps == {(1, 0): 0.0}
