"""What a vote costs on this data set: against all votes written out, and against Theorem 6."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from audit.core.heldout import Heldout
from audit.core.predictor import Answer
from audit.core.release import NoJournal
from audit.measure.perplexity import measure
from defenses.ensembles.mechanisms.local_votes import divergences
from defenses.ensembles.mechanisms.mixing_weights import divergence
from defenses.ensembles.mechanisms.votes import log_caps, winning
from defenses.gnmax import GNMax
from tests.defenses.journal import Memory
from tests.defenses.services import toy

CASTS = st.lists(st.integers(0, 5), min_size=1, max_size=8)
ALPHAS = st.sampled_from([1.5, 2.0, 8.0])

release = partial(toy, GNMax)


def members(cast: list[int], size: int) -> torch.Tensor:
    """(1, m, V): members that put these tokens first."""
    log_pmfs = torch.full((1, len(cast), size), math.log(0.1 / (size - 1)), dtype=torch.float64)
    log_pmfs[0, range(len(cast)), cast] = math.log(0.9)
    return log_pmfs


@given(cast=CASTS, size=st.integers(6, 9), sigma=st.floats(0.3, 20.0), alpha=ALPHAS)
def test_it_is_the_worst_of_all_other_votes_in_both_directions(
    cast: list[int], size: int, sigma: float, alpha: float
) -> None:
    row = np.bincount(cast, minlength=size)
    found = divergences(members(cast, size), sigma, alpha)[0]
    for i, mine in enumerate(cast):
        worst = 0.0
        for other in range(size):
            moved = row.copy()
            moved[mine] -= 1
            moved[other] += 1
            log_p, log_q = winning(torch.tensor(np.array([row, moved])), sigma)
            pair = (divergence(log_p, log_q, alpha), divergence(log_q, log_p, alpha))
            worst = max(worst, *map(float, pair))
        assert found[i].item() == pytest.approx(worst, rel=1e-8, abs=1e-12)


def theorem_6(q: float, sigma: float, order: float) -> float:
    """Papernot et al. 2018, Theorem 6, at the best μ₁ and μ₂: D_λ(M(D)‖M(D′)) is at most this.

    q: the probability that another token than the likeliest wins. M is (μ, μ/σ²)-RDP for every μ.
    """
    best = order / sigma**2
    for mu_2 in np.geomspace(1.05, 400, 60):
        for mu_1 in order * np.geomspace(1.0, 50, 30):
            e_1, e_2 = mu_1 / sigma**2, mu_2 / sigma**2
            allowed = (mu_2 - 1) * e_2 - mu_2 * math.log(mu_1 / (mu_1 - 1) * mu_2 / (mu_2 - 1))
            if math.log(q) > allowed:
                continue
            shrunk = (q * math.exp(e_2)) ** ((mu_2 - 1) / mu_2)
            if not shrunk < 1:
                continue
            a, b = (1 - q) / (1 - shrunk), math.exp(e_1) / q ** (1 / (mu_1 - 1))
            inside = (1 - q) * a ** (order - 1) + q * b ** (order - 1)
            best = min(best, math.log(inside) / (order - 1))
    return best


@pytest.mark.parametrize(("parts", "sigma"), [(8, 1.0), (8, 1.5), (12, 1.5), (12, 2.0)])
def test_where_all_agree_theorem_6_holds_forth_and_fails_back(parts: int, sigma: float) -> None:
    """It bounds what the data's own outputs tell; a neighbour's rare outputs tell more."""
    row, moved = [parts, *[0] * 9], [parts - 1, 1, *[0] * 8]
    log_p, log_q = winning(torch.tensor([row, moved]), sigma)
    forth, back = (float(divergence(*x, 2.0)) for x in ((log_p, log_q), (log_q, log_p)))
    bound = theorem_6(-math.expm1(float(log_p[0])), sigma, 2.0)
    assert bound / 100 < forth <= bound < back
    found = divergences(members([0] * parts, 10), sigma, 2.0)[0]
    np.testing.assert_allclose(found, back, rtol=1e-8)
    assert back < 2.0 / sigma**2 / 10  # far below the worst case still


@given(cast=CASTS, sigma=st.floats(0.2, 30.0), alpha=ALPHAS)
def test_it_is_never_above_what_is_charged(cast: list[int], sigma: float, alpha: float) -> None:
    found = divergences(members(cast, 7), sigma, alpha)
    assert found.shape == (1, len(cast)) and bool((found >= 0).all())
    assert found.max().item() <= alpha / sigma**2 * (1 + 1e-9)


@given(cast=CASTS, size=st.integers(6, 9), sigma=st.floats(0.05, 50.0))
def test_bounds_of_appendix_b4_are_what_it_says_and_never_below_the_pmf(
    cast: list[int], size: int, sigma: float
) -> None:
    row = torch.tensor([np.bincount(cast, minlength=size).tolist()])
    caps, exact = log_caps(row, sigma)[0], winning(row, sigma)[0]
    for x, n_x in enumerate(row[0].tolist()):
        others = [n for z, n in enumerate(row[0].tolist()) if z != x]
        as_many = 1 / (1 + sum(n >= n_x for n in others))
        pairwise = 0.5 * math.erfc(-(n_x - max(others)) / (2 * sigma))
        if pairwise > 1e-300:
            assert caps[x].item() == pytest.approx(math.log(min(as_many, pairwise)), rel=1e-9)
    assert bool((caps >= exact - 1e-9).all())


def test_bounds_of_appendix_b4_are_reached_by_two_tokens_and_by_equals() -> None:
    torch.testing.assert_close(
        log_caps(torch.tensor([[5, 3]]), 2.0), winning(torch.tensor([[5, 3]]), 2.0)
    )
    np.testing.assert_allclose(log_caps(torch.full((1, 40), 2), 0.3), -math.log(40))
    assert log_caps(torch.tensor([[3]]), 1.0).item() == 0.0


def scored(answers: list[Answer]) -> tuple[float, float]:
    assert all(answer.log_caps is not None for answer in answers)
    return (
        sum(float(a.log_probs.sum()) for a in answers),
        sum(float(a.log_caps.sum()) for a in answers if a.log_caps is not None),
    )


def test_a_session_keeps_both_beside_what_it_charges() -> None:
    made, kept = release(epsilon=None, noise_multiplier=1.0, budget=6), Memory()
    session = made.open(np.random.default_rng(0), kept)
    exact, caps = scored(session.score([[0]], [[1, 2, 3]]))
    assert exact < caps < 0
    session.generate([[0]], 2)
    assert [len(row["local"]) for row in kept.rows] == [4] * 5
    assert all(0 < max(row["local"]) <= row["charge"][0] for row in kept.rows)
    assert len({tuple(row["local"]) for row in kept.rows}) > 1
    last = session.score([[0]], [[1, 2]])[0]  # the second is the public model's, and exact
    assert last.answered == 1 and last.log_caps is not None
    assert last.log_caps[1] == last.log_probs[1] and last.log_caps[0] > last.log_probs[0]


def test_its_perplexity_has_a_lower_bound_beside_it() -> None:
    made = release(epsilon=None, noise_multiplier=1.0, budget=50)
    text = Heldout(((0, 1, 2, 3, 1), (0, 2, 2, 1)))
    session = made.open(np.random.default_rng(0), NoJournal())
    found, _, _ = measure(session, text, 50, np.random.default_rng(1))
    assert found["perplexity_lower_bound"].bound == "lower"
    assert found["perplexity"].bound is None
    assert found["perplexity_lower_bound"].value < found["perplexity"].value
