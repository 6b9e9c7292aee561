"""InvisibleInk on the models of parts: closed forms, neighbours, transcripts, and its service."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.accounting.renyi import least_epsilon
from defenses.invisible_ink import ClippedLogits, InvisibleInk
from tests.defenses.hostile_pmfs import (
    answers,
    both,
    divergences,
    emptied,
    laws,
    speaking,
    tensor,
    transcripts,
)
from tests.defenses.services import served, toy

release = partial(served, InvisibleInk)
service = partial(toy, InvisibleInk)

SLACK = 1 + 1e-9
ORDERS = st.sampled_from([1.01, 1.5, 2.0, 4.0, 16.0])


# closed forms


@pytest.mark.parametrize(
    ("queries", "bound", "parts", "delta", "rho", "epsilon"),
    [
        (500, 1.0, 7, 1e-6, 5.10204, 20.8168),
        (200, 0.5 / 1.1, 15, 1e-5, 0.0918274, 1.82628),  # clip .5 at temperature 1.1
    ],
)
def test_the_loss_is_that_of_the_paper(
    queries: int, bound: float, parts: int, delta: float, rho: float, epsilon: float
) -> None:
    """ρ = T·C²/(2B²), for every order, and ε at δ by Proposition 12 of arXiv 2004.00010."""
    for alpha in (1.5, 2.0, 8.0):
        mechanism = ClippedLogits(bound, alpha, parts)
        assert queries * mechanism.divergence == pytest.approx(alpha * rho, rel=1e-6)
    found = least_epsilon(lambda alpha: alpha * rho, 1e4, math.log(delta))
    assert found == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize(("parts", "bound"), [(7, 0.549271), (31, 2.43249)])
def test_the_clip_is_that_of_the_budget(parts: int, bound: float) -> None:
    """ε = 10 at δ = 1e-6 is ρ = 1.539279: 500 queries of references in batches of 7 and 31."""
    alpha, rho = 2.0, 1.539279
    defense = InvisibleInk(epsilon=alpha * rho, k=parts, alpha=alpha, budget=500)
    assert defense.mechanism.bound == pytest.approx(bound, rel=2e-5)


@pytest.mark.parametrize("alpha", [1.01, 1.5, 2.0, 8.0, 100.0])
@pytest.mark.parametrize("epsilon", [1 / 3, 2.0, 31.4])
def test_the_clip_spends_epsilon_at_every_order(epsilon: float, alpha: float) -> None:
    """B queries at αC²/(2k²), and hardly less than ε."""
    defense = InvisibleInk(epsilon=epsilon, alpha=alpha, k=7, budget=129)
    mechanism = defense.mechanism
    assert mechanism.alpha == alpha
    assert mechanism.divergence == pytest.approx(alpha * mechanism.bound**2 / (2 * 7**2))
    assert 0.9999 * epsilon < 129 * mechanism.divergence <= epsilon


def test_the_clips_of_the_defaults() -> None:
    assert InvisibleInk(k=8).mechanism.bound == pytest.approx(0.354, abs=5e-4)
    assert InvisibleInk().mechanism.bound == pytest.approx(0.707, abs=5e-4)


@given(seed=st.integers(0, 10_000), k=st.integers(2, 6), bound=st.sampled_from([0.01, 0.5, 3.0]))
def test_answers_agree_with_the_literal_transcription(seed: int, k: int, bound: float) -> None:
    generator = np.random.default_rng(seed)
    members, public = generator.dirichlet(np.ones(6), (3, k)), generator.dirichlet(np.ones(6), 3)
    released = answers(ClippedLogits(bound, 2.0, k), members, public)
    for query in range(3):
        logits = [math.log(p) for p in public[query]]
        for member in members[query]:
            for token, p in enumerate(member):
                change = math.log(p) - math.log(public[query][token])
                logits[token] += max(-bound, min(bound, change)) / k
        masses = [math.exp(logit) for logit in logits]
        np.testing.assert_allclose(released[query], [m / sum(masses) for m in masses], rtol=1e-9)


# neighbours


@given(
    seed=st.integers(0, 100_000),
    k=st.integers(2, 6),
    size=st.integers(2, 6),
    alpha=ORDERS,
    bound=st.sampled_from([0.01, 0.7, 5.0, 40.0]),
)
def test_no_emptied_part_costs_more_than_its_charge(
    seed: int, k: int, size: int, alpha: float, bound: float
) -> None:
    """Both ways; and the auditor's figure is the cost itself."""
    members, public = laws(np.random.default_rng(seed), 8, k, size)
    mechanism = ClippedLogits(bound, alpha, k)
    whole = answers(mechanism, members, public)
    with np.errstate(divide="ignore"):
        log_pmfs = np.log(np.concatenate([members, public[:, None]], axis=1))
    told = mechanism.mix(tensor(log_pmfs), []).costs
    assert told is not None
    for part in range(k):
        other = answers(mechanism, emptied(members, public, part), public)
        cost = both(whole, other, alpha)
        assert (cost <= mechanism.divergence * SLACK + 1e-13).all()
        np.testing.assert_allclose(told[:, part], cost, rtol=1e-6, atol=1e-12)


@given(seed=st.integers(0, 100_000), k=st.integers(2, 6), alpha=ORDERS)
def test_a_part_replaced_by_any_other_costs_at_most_four_charges(
    seed: int, k: int, alpha: float
) -> None:
    generator = np.random.default_rng(seed)
    members, public = laws(generator, 8, k + 1, 5)
    mechanism = ClippedLogits(0.7, alpha, k)
    changed = members[:, :k].copy()
    changed[:, 0] = members[:, k]
    one, two = answers(mechanism, members[:, :k], public), answers(mechanism, changed, public)
    assert (both(one, two, alpha) <= 4 * mechanism.divergence * SLACK + 1e-13).all()


def test_a_part_that_pulls_half_of_all_up_and_half_down_costs_its_charge() -> None:
    """The bound is the exponential mechanism's: near to it where the clip over k is small."""
    public = np.array([[0.5, 0.5]])
    up, down = np.array([0.99, 0.01]), np.array([0.01, 0.99])
    for k, bound, alpha in ((2, 0.2, 2.0), (16, 0.707, 2.0), (4, 0.2, 8.0)):
        mechanism = ClippedLogits(bound, alpha, k)
        rest = [public[0]] * (k - 1)
        whole = answers(mechanism, np.array([[up, *rest]]), public)
        gone = answers(mechanism, np.array([[public[0], *rest]]), public)
        other = answers(mechanism, np.array([[down, *rest]]), public)
        assert 0.96 < divergences(whole, gone, alpha)[0] / mechanism.divergence <= 1
        assert 0.9 < divergences(whole, other, alpha)[0] / (4 * mechanism.divergence) <= 1


def test_a_token_that_a_member_excludes_is_moved_down_by_the_whole_clip() -> None:
    public, member = np.array([[0.5, 0.5]]), np.array([1.0, 0.0])
    (one,) = answers(ClippedLogits(0.4, 2.0, 2), np.array([[member, public[0]]]), public)
    assert one[1] / one[0] == pytest.approx(math.exp(-0.4 / 2 - 0.4 / 2))


def test_a_token_that_the_public_model_excludes_is_never_said() -> None:
    public = np.array([[0.6, 0.4, 0.0]])
    members = np.array([[[0.1, 0.1, 0.8], [0.0, 1.0, 0.0]]])
    mechanism = ClippedLogits(0.5, 2.0, 2)
    released = answers(mechanism, members, public)
    assert released[0, 2] == 0 and (released[0, :2] > 0).all()
    without = answers(mechanism, emptied(members, public, 0), public)
    assert both(released, without, 2.0)[0] <= mechanism.divergence * SLACK


# whole transcripts, through sessions


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=pytest.mark.full) for i in (1, 2))])
def test_no_transcript_costs_more_than_the_claim(bigram: Any, seed: int, alpha: float) -> None:
    """Four tokens under a budget of three: the last one is the public model's."""
    generator = np.random.default_rng(seed)
    like = bigram(1, vocabulary=3)
    members, public = laws(generator, 3, 2, 3)
    public = public + 1e-3
    public /= public.sum(axis=-1, keepdims=True)
    models = [speaking(members[:, i], like) for i in range(2)]
    made = release(models, speaking(public, like), epsilon=0.6, budget=3, alpha=alpha)
    whole = transcripts(made, 4)
    for part in range(2):
        other = transcripts(made.neighbour(part), 4)
        assert both(whole, other, alpha) <= made.guarantee.epsilon
        assert made.replaced(part).members[part] is made.members[1 - part]
        replaced = transcripts(made.replaced(part), 4)
        assert both(whole, replaced, alpha) <= 4 * 0.6


def test_a_transcript_nearly_costs_the_claim(bigram: Any) -> None:
    like = bigram(1, vocabulary=3)
    public, up = np.array([0.499995, 0.499995, 1e-5]), np.array([0.9, 0.1 - 1e-5, 1e-5])
    made = release(
        [speaking(up, like), speaking(public, like)], speaking(public, like), epsilon=0.1, budget=3
    )
    whole, other = transcripts(made, 4), transcripts(made.neighbour(0), 4)
    assert 0.95 * 0.1 < both(whole, other, 2.0) <= 0.1


# the service


def test_the_guarantee_names_part_relation_and_user() -> None:
    promise = service(k=8).guarantee
    assert (promise.unit, promise.relation, promise.basis) == ("part", "emptied", "worst case")
    assert (promise.epsilon, promise.alpha, promise.delta) == (2.0, 2.0, None)
    (per_user,) = (c for c in promise.conditions if c.startswith("per user"))
    assert "at most 8 nats" in per_user and "keyed hash" in per_user
    assert "which this does not bound" in per_user
    said = " ".join(promise.conditions)
    assert "clipped to [−C, C] with C = 0.35" in said
    for words in ("a part is emptied where all its users are gone", "is fixed beforehand",
                  "do not depend on who is read with them", "one sampled token"):  # fmt: skip
        assert words in said
    assert "D_α ≤ α·C²/(2k²) for every α" in promise.theorem


@pytest.mark.parametrize("alpha", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 0.7, 1.0, 2.0, 31.4])
def test_the_figures_per_user_are_upper_bounds_and_near(epsilon: float, alpha: float) -> None:
    made = service(epsilon=epsilon, alpha=alpha)
    (per_user,) = (c for c in made.guarantee.conditions if c.startswith("per user"))
    found = re.search(r"at most (\S+) nats, or \((\S+), 1e-05\)", per_user)
    assert found is not None
    loss, approximate = map(float, found.groups())
    assert 4 * epsilon <= loss <= 4 * epsilon * (1 + 1e-5)
    rho, delta = 4 * epsilon / alpha, 1e-5
    orders = 1 + np.logspace(-4, 4, 200_001)
    least = (orders * rho + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)).min()
    assert least <= approximate <= least * 1.01
    exact = least_epsilon(lambda order: order * rho, 1e4, math.log(delta))
    assert exact <= approximate <= exact * (1 + 2e-5)
    assert approximate <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
