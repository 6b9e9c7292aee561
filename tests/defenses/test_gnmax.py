"""GNMax: the winner's pmf against closed forms and simulation, and the cost of a vote."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from audit.core.errors import UsageError
from audit.core.predictor import Access
from audit.core.release import NoJournal
from defenses.ensembles.mechanisms.mixing_weights import divergence
from defenses.ensembles.mechanisms.votes import log_winning, votes, winning
from defenses.gnmax import GNMax, NoisyVotes
from tests.defenses.services import toy

SIGMAS = st.floats(0.05, 100.0)

release = partial(toy, GNMax)


def counts(*rows: list[int]) -> torch.Tensor:
    return torch.tensor(rows)


@given(a=st.integers(0, 8), b=st.integers(0, 8), sigma=SIGMAS)
def test_of_two_tokens_the_winner_is_a_normal_probability(a: int, b: int, sigma: float) -> None:
    """P(N(a, σ²) > N(b, σ²)) = Φ((a − b)/(σ√2)), in the tails too."""
    expected = norm.logcdf((a - b) / (sigma * math.sqrt(2)))
    found = winning(counts([a, b]), sigma)[0, 0].item()
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_equal_votes_win_equally_whatever_the_vocabulary() -> None:
    for size in (1, 3, 50_257):
        found = winning(torch.full((1, size), 2), 0.7)
        np.testing.assert_allclose(found.numpy(), -math.log(size), rtol=1e-12, atol=1e-12)


def test_three_tokens_have_the_closed_form_of_an_orthant() -> None:
    """P(first of three wins): an orthant with correlation ½, known where the gaps are 0."""
    found = winning(counts([1, 0, 0]), 1e6).exp()[0]
    np.testing.assert_allclose(found.numpy(), 1 / 3, atol=1e-6)


@pytest.mark.parametrize("sigma", [0.4, 2.0, 30.0])
@pytest.mark.parametrize("row", [[5, 2, 1, 0, 0, 0, 0, 0], [4, 4] + [0] * 60, [0, 8, 0]])
def test_the_pmf_is_what_noise_gives(row: list[int], sigma: float) -> None:
    generator = np.random.default_rng(0)
    n = 100_000
    noisy = np.array(row) + sigma * generator.normal(size=(n, len(row)))
    share = np.bincount(noisy.argmax(axis=1), minlength=len(row)) / n
    pmf = winning(counts(row), sigma).exp()[0].numpy()
    assert (np.abs(share - pmf) <= 5 * np.sqrt(pmf * (1 - pmf) / n) + 1e-4).all()


@given(seed=st.integers(0, 10_000), sigma=SIGMAS, size=st.sampled_from([2, 9, 300, 50_000]))
def test_the_integrals_agree_with_a_plain_sum(seed: int, sigma: float, size: int) -> None:
    generator = np.random.default_rng(seed)
    row = np.bincount(generator.integers(min(size, 4), size=8), minlength=size)
    values, sizes = np.unique(row, return_counts=True)
    log_p = log_winning(tuple(zip(values.tolist(), sizes.tolist(), strict=True)), sigma)
    assert (np.diff(log_p) > 0).all()  # more votes, likelier
    z = np.linspace(-10, 12, 20_001)  # for the largest class, a plain sum over a fine grid
    gaps = (row.max() - values) / sigma
    beaten = (sizes[:, None] * norm.logcdf(z + gaps[:, None])).sum(axis=0) - norm.logcdf(z)
    direct = np.sum(norm.pdf(z) * np.exp(beaten)) * (z[1] - z[0])
    assert math.exp(log_p[-1]) == pytest.approx(direct, rel=1e-6)


def test_each_member_votes_once_for_its_likeliest_token() -> None:
    members = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.3, 0.2]]]).log()
    assert votes(members).tolist() == [[2, 0, 1]]


@given(
    seed=st.integers(0, 10_000),
    sigma=st.floats(0.3, 50.0),
    k=st.integers(2, 9),
    size=st.integers(2, 12),
    alpha=st.sampled_from([1.5, 2.0, 8.0]),
)
def test_no_vote_costs_more_than_is_charged(
    seed: int, sigma: float, k: int, size: int, alpha: float
) -> None:
    """Replaced: α/σ². Removed: α/(2σ²). Exact divergences of the released token."""
    generator = np.random.default_rng(seed)
    cast = generator.integers(size, size=k)
    row = np.bincount(cast, minlength=size)
    moved, less = row.copy(), row.copy()
    moved[cast[0]] -= 1
    moved[generator.integers(size)] += 1
    less[cast[0]] -= 1
    log_p = winning(torch.tensor(np.array([row, moved, less])), sigma)
    bound = NoisyVotes(sigma, alpha).divergence
    for other, limit in ((1, bound), (2, bound / 2)):
        forth = divergence(log_p[0], log_p[other], alpha)
        back = divergence(log_p[other], log_p[0], alpha)
        assert max(forth.item(), back.item()) <= limit * (1 + 1e-9) + 1e-14


def test_the_charge_is_near_what_two_tokens_lose() -> None:
    """With σ large the argmax of two even counts keeps 2/π of the divergence."""
    log_p = winning(counts([1, 1], [2, 0]), 100.0)
    lost = divergence(log_p[0], log_p[1], 2.0).item()
    assert lost == pytest.approx(2 / math.pi * NoisyVotes(100.0, 2.0).divergence, rel=1e-3)


def test_sigma_follows_from_epsilon_and_the_other_way_round() -> None:
    asked = release(epsilon=2.0, budget=1024)
    assert asked.mechanism.sigma == pytest.approx(32.0, rel=1e-4)
    assert asked.mechanism.sigma >= 32.0
    given_ = release(epsilon=None, noise_multiplier=32.0, budget=1024)
    assert given_.guarantee.epsilon == pytest.approx(2.0, rel=1e-4)
    assert given_.guarantee.epsilon >= 1024 * 2.0 / 32.0**2
    assert given_.guarantee.epsilon >= 1024 * given_.account.charge - 1e-12


def test_the_guarantee_says_what_a_removed_part_costs() -> None:
    promise = release().guarantee
    assert (promise.unit, promise.relation, promise.basis) == ("part", "replace", "worst case")
    assert "α/(2σ²)" in " ".join(promise.conditions)


def test_one_token_is_released_and_its_pmf_can_be_read_by_the_auditor() -> None:
    made = release(noise_multiplier=0.8, epsilon=None)
    open_ = made.open(np.random.default_rng(0), NoJournal())
    assert (open_.access, open_.readable) == (Access.GENERATE, Access.DISTRIBUTION)
    read, _ = open_.distribution([[0, 2]], list(range(6)))
    members = torch.stack([m.log_pmfs([[0, 2, 0]], [2]) for m in made.members], dim=1)
    np.testing.assert_allclose(read, winning(votes(members), 0.8).numpy())
    said = [a.tokens[0] for a in open_.generate([[0, 2]] * 1000, 1)]
    share = np.bincount(said, minlength=6) / 1000
    assert np.abs(share - np.exp(read[0])).max() < 0.06


@pytest.mark.parametrize(
    "given_",
    [{"noise_multiplier": 1.0}, {"epsilon": None}, {"epsilon": None, "noise_multiplier": 0.0}],
)
def test_exactly_one_of_epsilon_and_noise_is_given(given_: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="gnmax: "):
        GNMax(**given_)
