"""Algorithm 2's arithmetic against closed forms and a slow, literal transcription."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from defenses._mixing import clip, divergence, mix, mixing_weights, temper


def pmf(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).log()


def random_pmfs(seed: int, *shape: int, spread: float = 1.5) -> torch.Tensor:
    logits = np.random.default_rng(seed).normal(scale=spread, size=shape)
    return torch.log_softmax(torch.tensor(logits), dim=-1)


def test_divergence_has_the_values_of_the_closed_form() -> None:
    half, quarter = pmf(0.5, 0.5), pmf(0.25, 0.75)
    assert divergence(half, quarter, 2.0).item() == pytest.approx(0.2876820725, abs=1e-10)
    assert divergence(quarter, half, 2.0).item() == pytest.approx(0.2231435513, abs=1e-10)


def test_tempering_is_not_post_processing() -> None:
    half, quarter = temper(pmf(0.5, 0.5), 0.5), temper(pmf(0.25, 0.75), 0.5)
    assert divergence(half, quarter, 2.0).item() == pytest.approx(1.0217, abs=1e-4)


def literal_algorithm_2(
    members: np.ndarray, public: np.ndarray, alpha: float, beta: float
) -> tuple[np.ndarray, list[float], list[float]]:
    """Lines 6 to 19 for one query, as printed: loops, probabilities, a grid-free bisection."""

    def renyi(p: np.ndarray, q: np.ndarray) -> float:
        return math.log(sum(b * (a / b) ** alpha for a, b in zip(p, q, strict=True))) / (alpha - 1)

    k = len(members)
    lambdas, means = [], []
    for first, second in members:
        means.append((first + second) / 2)
        low, high = 0.0, 1.0
        if renyi(first, second) <= beta:
            low = 1.0
        else:
            for _ in range(100):
                middle = (low + high) / 2
                left = middle * first + (1 - middle) * public
                right = middle * second + (1 - middle) * public
                low, high = (middle, high) if renyi(left, right) <= beta else (low, middle)
        lambdas.append(low)
    star = sum(lambdas) / k
    h = star * sum(means) / k + (1 - star) * public
    charges = []
    for i in range(k):
        others = [j for j in range(k) if j != i]
        star_without = sum(lambdas[j] for j in others) / (k - 1)
        mean_without = sum(means[j] for j in others) / (k - 1)
        h_without = star_without * mean_without + (1 - star_without) * public
        charges.append(max(renyi(h, h_without), renyi(h_without, h)))
    return h, lambdas, charges


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 6),
    alpha=st.sampled_from([1.5, 2.0, 4.0, 8.0]),
    beta=st.sampled_from([1e-3, 0.05, 0.5, 50.0]),
)
@settings(max_examples=40, deadline=None)
def test_batches_agree_with_the_literal_transcription(
    seed: int, k: int, alpha: float, beta: float
) -> None:
    members, public = random_pmfs(seed, 3, k, 2, 7), random_pmfs(seed + 1, 3, 7)
    mixed = mix(members, public, alpha, beta, 1.0)
    for query in range(3):
        h, lambdas, charges = literal_algorithm_2(
            members[query].exp().numpy(), public[query].exp().numpy(), alpha, beta
        )
        np.testing.assert_allclose(mixed.log_h[query].exp().numpy(), h, atol=1e-7)
        np.testing.assert_allclose(mixed.lambdas[query].numpy(), lambdas, atol=1e-7)
        np.testing.assert_allclose(mixed.charges[query].numpy(), charges, atol=1e-6)


@given(seed=st.integers(0, 10_000), beta=st.floats(1e-4, 2.0), alpha=st.floats(1.1, 16.0))
@settings(max_examples=40, deadline=None)
def test_the_feasible_end_is_returned_and_is_the_largest(
    seed: int, beta: float, alpha: float
) -> None:
    members, public = random_pmfs(seed, 2, 3, 2, 5, spread=3.0), random_pmfs(seed + 1, 2, 5)
    weights = mixing_weights(members, public, alpha, beta)

    def leakage(weight: torch.Tensor) -> torch.Tensor:
        mixed = [
            torch.log(weight[..., None] * members[:, :, j].exp()
                      + (1 - weight[..., None]) * public.exp()[:, None])
            for j in (0, 1)
        ]  # fmt: skip
        return divergence(mixed[0], mixed[1], alpha)

    assert bool((leakage(weights) <= beta * (1 + 1e-9) + 1e-12).all())
    larger = (weights + 1e-6).clamp(max=1.0)
    assert bool(((leakage(larger) > beta) | (weights == 1.0)).all())


def test_equal_members_need_no_mixing_and_charge_what_the_mean_moves() -> None:
    one = random_pmfs(3, 1, 1, 1, 6)
    members = one.expand(1, 4, 2, 6)
    mixed = mix(members, random_pmfs(4, 1, 6), 2.0, 1e-6, 1.0)
    assert mixed.lambdas.tolist() == [[1.0] * 4]
    np.testing.assert_allclose(mixed.charges.numpy(), 0.0, atol=1e-12)


def test_a_secret_in_both_halves_of_a_part_is_limited_by_its_charge_alone() -> None:
    sure = pmf(0.97, 0.01, 0.01, 0.01)
    flat = pmf(0.25, 0.25, 0.25, 0.25)
    members = torch.stack([torch.stack([sure, sure]), torch.stack([flat, flat])])[None]
    mixed = mix(members, flat[None], 2.0, 0.002, 1.0)
    assert mixed.lambdas.tolist() == [[1.0, 1.0]]
    assert mixed.charges[0, 0] > 0.2  # far above β: only the ledger protects the part


def test_parts_without_others_are_compared_with_the_public_model() -> None:
    members, public = random_pmfs(5, 1, 1, 2, 4), random_pmfs(6, 1, 4)
    mixed = mix(members, public, 2.0, 0.1, 1.0)
    expected = max(
        divergence(mixed.log_h[0], public[0], 2.0), divergence(public[0], mixed.log_h[0], 2.0)
    )
    assert mixed.charges[0, 0] == pytest.approx(float(expected))


def test_what_is_charged_is_the_tempered_mixture() -> None:
    members, public = random_pmfs(7, 1, 2, 2, 4), random_pmfs(8, 1, 4)
    plain, sharp = (mix(members, public, 2.0, 10.0, t) for t in (1.0, 0.5))
    without = temper(torch.logsumexp(members[:, 1], dim=1) - math.log(2), 0.5)
    expected = max(
        divergence(sharp.log_h[0], without[0], 2.0), divergence(without[0], sharp.log_h[0], 2.0)
    )
    assert sharp.charges[0, 0] == pytest.approx(float(expected))
    assert float(sharp.charges[0, 0]) != pytest.approx(float(plain.charges[0, 0]), rel=1e-3)


@given(seed=st.integers(0, 10_000), bound=st.floats(0.01, 3.0))
@settings(max_examples=40, deadline=None)
def test_clipped_members_stay_in_the_band_and_sum_to_one(seed: int, bound: float) -> None:
    members, public = random_pmfs(seed, 2, 3, 2, 6, spread=4.0), random_pmfs(seed + 1, 2, 6)
    clipped = clip(members, public, bound)
    np.testing.assert_allclose(clipped.exp().sum(dim=-1).numpy(), 1.0, atol=1e-12)
    assert float((clipped - public[:, None, None]).abs().max()) <= bound + 1e-9
    inside = clip(clipped, public, bound)
    np.testing.assert_allclose(inside.numpy(), clipped.numpy(), atol=1e-9)
