"""PMixed: its pmf and its bounds, against all subsets of members written out."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from defenses.ensembles.mechanisms.coins import bound_for, joined, removed, replaced
from defenses.ensembles.mechanisms.mixing import clip
from defenses.pmixed import PMixed
from tests.defenses.services import toy

release = partial(toy, PMixed)


def over_coins(members: np.ndarray, public: np.ndarray, coin: float) -> np.ndarray:
    """The pmf of one token, by the mechanism as stated: members (k, V), every subset in turn."""
    pmf = np.zeros_like(public)
    for joins in product([False, True], repeat=len(members)):
        chance = math.prod(coin if join else 1 - coin for join in joins)
        drawn = members[list(joins)]
        pmf += chance * (drawn.mean(axis=0) if len(drawn) else public)
    return pmf


def renyi(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    return math.log(float((p**alpha * q ** (1 - alpha)).sum())) / (alpha - 1)


def lost(members: np.ndarray, other: np.ndarray, public: np.ndarray, q: float, a: float) -> float:
    one, two = over_coins(members, public, q), over_coins(other, public, q)
    return max(renyi(one, two, a), renyi(two, one, a))


def clipped(generator: np.random.Generator, k: int, size: int, bound: float) -> Any:
    """(members in the band, public): from nearly public to pressed against the band's edges."""
    public = generator.dirichlet(np.full(size, 10 ** generator.uniform(-1, 1))) + 1e-9
    public /= public.sum()
    logits = np.log(public) + 10 ** generator.uniform(-1, 1.5) * generator.normal(size=(k, size))
    members = torch.log_softmax(torch.tensor(logits), dim=-1)[None]
    near = clip(members, torch.tensor(np.log(public))[None, None], bound)[0].exp().numpy()
    return near, public


CASES = {
    "seed": st.integers(0, 100_000),
    "k": st.integers(2, 5),
    "size": st.integers(2, 6),
    "bound": st.floats(0.02, 3.0),
    "coin": st.sampled_from([0.05, 0.125, 0.5, 0.9, 1.0]),
    "alpha": st.sampled_from([1.1, 2.0, 8.0]),
}


@given(**{name: CASES[name] for name in ("seed", "k", "size", "bound", "coin")})
def test_the_coins_need_not_be_drawn(
    seed: int, k: int, size: int, bound: float, coin: float
) -> None:
    members, public = clipped(np.random.default_rng(seed), k, size, bound)
    found = joined(torch.tensor(np.log(members))[None], torch.tensor(np.log(public))[None], coin)
    np.testing.assert_allclose(found[0].exp().numpy(), over_coins(members, public, coin), rtol=1e-9)


@given(**CASES)
def test_no_part_removed_or_replaced_costs_more(
    seed: int, k: int, size: int, bound: float, coin: float, alpha: float
) -> None:
    members, public = clipped(np.random.default_rng(seed), k + 1, size, bound)
    whole, other = members[:k], np.vstack([members[k:], members[1:k]])
    for neighbour, limit in ((whole[1:], removed), (other, replaced)):
        worst = limit(bound, coin, k, alpha)
        assert lost(whole, neighbour, public, coin, alpha) <= worst * (1 + 1e-9) + 1e-12


def test_members_at_the_edges_of_the_band_reach_it() -> None:
    """Three tokens: the part alone, then the others alone, then nobody at the upper edge."""
    coins, bounds, alphas = (0.05, 0.125, 0.5, 1.0), (0.02, 0.3, 2.0), (1.5, 2.0, 8.0)
    for coin, k, bound, alpha in product(coins, (2, 3, 8), bounds, alphas):
        up = 1 / (1 + math.exp(bound))
        public = np.array([up, up, 1 - 2 * up])
        own, other = [bound, -bound, -bound], [-bound, bound, -bound]
        members = public * np.exp(np.array([own, *[other] * (k - 1)]))
        np.testing.assert_allclose(members.sum(axis=1), 1.0)
        found = lost(members, members[1:], public, coin, alpha)
        assert found == pytest.approx(removed(bound, coin, k, alpha), rel=1e-6)


@given(
    epsilon=st.floats(1e-8, 1e3),
    coin=st.floats(0.001, 1.0),
    k=st.integers(2, 40),
    alpha=st.sampled_from([1.01, 2.0, 8.0]),
)
def test_the_band_is_the_widest_that_keeps_the_divergence(
    epsilon: float, coin: float, k: int, alpha: float
) -> None:
    bound = bound_for(epsilon, coin, k, alpha)
    assert removed(bound, coin, k, alpha) <= epsilon
    if bound < 30:
        assert removed(bound * 1.001, coin, k, alpha) > epsilon * 0.99


def test_the_guarantee_names_band_and_coin() -> None:
    made = release(epsilon=2.0)
    promise = made.guarantee
    assert (promise.unit, promise.relation, promise.basis) == ("part", "removed", "worst case")
    told = " ".join(promise.conditions)
    assert f"c = {made.mechanism.bound:.6g}" in told and "probability 0.25" in told
    assert "replacing a part" in told
    mechanism = PMixed(k=8, q=0.5, epsilon=3.0).mechanism
    assert mechanism.coin == 0.5
    assert mechanism.divergence == removed(mechanism.bound, 0.5, 8, 2.0)
