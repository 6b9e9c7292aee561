"""Subsample-and-aggregate: the bound on Laplace noise, the noise itself, and what is released."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from audit.accounting import laplace_divergence
from audit.core.law import LaplaceNoise
from audit.core.noise import laplace_of, words
from audit.core.release import NoJournal
from defenses.ensembles.mechanisms.laplace import mean_divergence, noised, scale_for
from defenses.subsample_aggregate import NoisyMean, SubsampleAggregate
from tests.defenses.services import toy

ORDERS = st.sampled_from([1.01, 1.5, 2.0, 4.0, 8.0])

release = partial(toy, SubsampleAggregate)


def integrated(shift: float, alpha: float) -> float:
    """D_α of two Laplace densities of scale 1, by numerical integration."""

    def term(x: float) -> float:
        return math.exp(-alpha * abs(x) + (alpha - 1) * abs(x - shift)) / 2

    inner = quad(term, 0, shift, epsabs=0, epsrel=1e-11)[0]
    outer = quad(term, shift, np.inf, epsrel=1e-11)[0] + quad(term, -np.inf, 0, epsrel=1e-11)[0]
    return math.log(inner + outer) / (alpha - 1)


@given(shift=st.floats(0.01, 5.0), alpha=ORDERS)
def test_the_closed_form_is_the_integral(shift: float, alpha: float) -> None:
    expected = integrated(shift, alpha)
    assert laplace_divergence(shift, alpha) == pytest.approx(expected, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("alpha", [1.01, 2.0, 64.0])
def test_small_and_large_shifts_are_safe(alpha: float) -> None:
    for shift in (1e-12, 3e-7, 0.99e-4, 1e-4, 1.01e-4, 0.5, 40.0, 5000.0):
        found = laplace_divergence(shift, alpha)
        assert found <= min(shift, alpha * shift * shift / 2) * (1 + 1e-9)  # as all pure DP
        assert found >= 0.5 * min(shift, shift * shift / 2)
    assert laplace_divergence(0.0, alpha) == 0.0


def laplace(seed: bytes, size: int) -> np.ndarray:
    return laplace_of(words(seed, size))


def pmfs(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Random pmfs, from flat to certain."""
    found: np.ndarray = generator.dirichlet(
        np.full(shape[-1], 10 ** generator.uniform(-2, 1)), size=shape[:-1]
    )
    return found


@given(seed=st.integers(0, 10_000), k=st.integers(2, 6), size=st.integers(2, 6), alpha=ORDERS)
def test_no_part_replaced_or_removed_costs_more(seed: int, k: int, size: int, alpha: float) -> None:
    """Against the exact divergence of product noise: the sum over coordinates of the integral."""
    generator = np.random.default_rng(seed)
    scale = 10 ** generator.uniform(-1.5, 1)
    members = pmfs(generator, k, size)
    other = members.copy()
    other[0] = pmfs(generator, 1, size)
    bound = mean_divergence(scale, k, alpha)
    for neighbour in (other.mean(axis=0), members[1:].mean(axis=0)):
        shifts = np.abs(members.mean(axis=0) - neighbour) / scale
        assert sum(laplace_divergence(float(s), alpha) for s in shifts) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("k", [2, 8])
def test_two_parts_sure_of_different_tokens_cost_exactly_that(k: int) -> None:
    """And 1/k, the paper's sensitivity, would not do."""
    others = np.tile([0.25, 0.25, 0.5], (k - 1, 1))
    mean = np.vstack([others, [1.0, 0, 0]]).mean(axis=0)
    replaced = np.vstack([others, [0, 1.0, 0]]).mean(axis=0)
    shifts = np.abs(mean - replaced) / 0.3
    truth = sum(integrated(float(s), 2.0) for s in shifts if s > 0)
    assert truth == pytest.approx(mean_divergence(0.3, k, 2.0), rel=1e-6)
    assert truth > 1.5 * laplace_divergence(1 / k / 0.3, 2.0)
    sure = np.tile([0, 1.0, 0], (k - 1, 1))
    removed = np.vstack([sure, [1.0, 0, 0]]).mean(axis=0) - sure.mean(axis=0)
    assert sum(integrated(abs(float(s)) / 0.3, 2.0) for s in removed if s) == pytest.approx(truth)


@given(epsilon=st.floats(1e-9, 1e4), k=st.integers(2, 64), alpha=ORDERS)
def test_the_scale_is_the_least_that_keeps_the_divergence(
    epsilon: float, k: int, alpha: float
) -> None:
    scale = scale_for(epsilon, k, alpha)
    assert mean_divergence(scale, k, alpha) <= epsilon
    assert mean_divergence(scale * 0.999, k, alpha) > epsilon * 0.99


def test_the_released_pmf_is_mean_plus_noise_clamped_and_renormalised() -> None:
    mean = torch.tensor([[0.4, 0.2, 0.1, 0.1, 0.1, 0.1, 0, 0]], dtype=torch.float64)
    expected = np.maximum(mean.numpy() + 0.5 * laplace(b"seed", 8), 0.05)
    assert 1 <= (expected == 0.05).sum() <= 7
    released = noised(mean, 0.5, 0.05, [b"seed"]).exp().numpy()
    np.testing.assert_allclose(released, expected / expected.sum(), rtol=1e-12)


def test_law_is_the_mean_and_the_noise() -> None:
    made = release()
    law = made.open(np.random.default_rng(0), NoJournal()).laws([[0, 2]], [[1, 4, 3]])
    means = torch.stack([m.log_pmfs([[0, 2, 1, 4, 3]], [2]) for m in made.members]).exp()
    np.testing.assert_allclose(np.exp(law.log_pmfs), means.mean(dim=0))
    assert law.noise == LaplaceNoise(made.mechanism.scale, made.mechanism.floor)


def test_every_query_has_noise_of_its_own() -> None:
    """The same question twice is two charged queries with two answers."""
    open_ = release().open(np.random.default_rng(0), NoJournal())
    rows, answered = open_.distribution([[0, 2]] * 6, list(range(6)))
    assert answered == 6
    for one, other in itertools.combinations(rows, 2):
        assert np.abs(one - other).max() > 0.01
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0)


def test_the_guarantee_is_of_replaced_and_removed_parts() -> None:
    promise = release().guarantee
    assert (promise.relation, promise.also) == ("replace", ("removed",))
    assert "removed" in " ".join(promise.conditions)


def test_a_mechanism_gives_one_row_a_query() -> None:
    members = torch.log_softmax(torch.randn(3, 4, 7, dtype=torch.float64), dim=-1)
    mechanism = NoisyMean(0.1, 0.01, 2.0, 4)
    assert mechanism.mix(members, [b"a", b"b", b"c"]).log_h.shape == (3, 7)
    assert mechanism.mix(members[:0], []).log_h.shape == (0, 7)
