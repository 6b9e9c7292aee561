"""GNMax: the winner's pmf, and what a vote costs on any data and on this data set."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from audit.contract.toys import Memory
from audit.core.heldout import Heldout
from audit.core.predictor import Answer
from audit.core.release import NoJournal
from audit.gate.claims import unsatisfied
from audit.gate.policy import ClaimLimit
from audit.measure.perplexity import read
from audit.measure.ratios import measures
from defenses.ensembles import ByData, Constant
from defenses.ensembles.mechanisms.mixing_weights import divergence
from defenses.ensembles.mechanisms.votes import (
    divergences,
    log_caps,
    log_winning,
    votes,
    winning,
)
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


# what a vote costs on this data set

CASTS = st.lists(st.integers(0, 5), min_size=1, max_size=8)
ALPHAS = st.sampled_from([1.5, 2.0, 8.0])


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
    found = measures(read(session, text, 50)[0], np.random.default_rng(1))
    assert found["perplexity_lower_bound"].bound == "lower"
    assert found["perplexity"].bound is None
    assert found["perplexity_lower_bound"].value < found["perplexity"].value


# charges by the data at hand


def bernoulli(p: float, q: float) -> float:
    """D_2 of two Bernoulli laws, nats."""
    return math.log(p * p / q + (1 - p) ** 2 / (1 - q))


@pytest.mark.parametrize("sigma", [0.6, 1.5, 8.0])
@pytest.mark.parametrize(("cast", "gaps"), [((0, 0, 0), (3, 1)), ((0, 0, 1), (1, -1))])
def test_a_vote_of_two_tokens_is_charged_what_it_could_change(
    sigma: float, cast: tuple[int, ...], gaps: tuple[int, int]
) -> None:
    """P(0 wins) = Φ(gap/(σ√2)); a vote for 0 that moves lowers the gap by 2, the larger direction
    counts."""
    pmfs = torch.full((1, 3, 2), 0.1, dtype=torch.float64)
    pmfs[0, range(3), cast] = 0.9
    p, q = (float(norm.cdf(gap / (sigma * math.sqrt(2)))) for gap in gaps)
    mechanism, account, journal = NoisyVotes(sigma, 2.0), ByData(99.0, 1), Memory()
    ledger = account.open(3, journal)
    assert account.admit(ledger, mechanism.mix(pmfs.log(), [b""]), [""]).count == 1
    charges, worst = np.array(ledger.spent), mechanism.divergence
    first = max(bernoulli(p, q), bernoulli(q, p))
    assert charges[0] == pytest.approx(first, rel=2e-5)  # rounded up
    assert charges[0] >= first and charges.max() <= worst * (1 + 2e-5)


def test_a_session_stops_by_what_this_data_set_costs() -> None:
    made, kept = (
        release(epsilon=1.0, noise_multiplier=1.2, charge="data", budget=40),
        Memory(),
    )
    session = made.open(np.random.default_rng(0), kept)
    text = [0, *np.random.default_rng(1).integers(6, size=30).tolist()]
    (answer,) = session.score([text[:1]], [text[1:]])
    members = torch.stack([m.log_pmfs([text], [1]) for m in made.members], dim=1)
    local = divergences(members, 1.2, 2.0)  # (30, 4)
    fit = int((local.cumsum(0).max(1).values < 1.0).sum())
    assert 0 < fit < 30
    assert answer.answered == fit
    asked = [row for row in kept.rows if not row["stopped"]]
    assert len(asked) == fit and all("local" not in row for row in kept.rows)
    np.testing.assert_allclose([row["charge"] for row in asked], local[:fit], rtol=1e-5)
    exact = winning(votes(members), 1.2)[range(30), text[1:]]
    np.testing.assert_allclose(answer.log_probs[:fit], exact[:fit])
    assert session.remaining == 40 - 30  # the public number of queries, and nothing of ε


def test_the_worst_case_answers_fewer_at_the_same_noise() -> None:
    """α/σ² = 1.39 a query would leave nothing of ε = 1."""
    made = release(epsilon=1.0, noise_multiplier=1.2, charge="data", budget=40)
    worst = Constant(made.account.worst, 40)
    assert worst.charge == pytest.approx(2 / 1.44, rel=1e-5) and worst.charge > 1.0
    cost = [said for said in made.guarantee.conditions if "worst case" in said]
    assert cost == [f"as a worst case 40 such queries cost {worst.spends:.6g} nats"]


def test_the_claim_is_data_dependent_and_never_ranked_with_a_worst_case() -> None:
    worst = release(epsilon=2.0).guarantee
    data = release(epsilon=2.0, noise_multiplier=9.0, charge="data").guarantee
    assert (worst.basis, data.basis) == ("worst case", "data-dependent")
    assert data.epsilon == worst.epsilon == 2.0
    assert (data.relation, data.also) == ("replace", ())  # a removed part's cost is not computed
    limit = ClaimLimit(2.0, "part", "replace", alpha=2.0)
    assert unsatisfied(limit, worst) is None
    assert "data-dependent" in (unsatisfied(limit, data) or "")
    said = " ".join(data.conditions)
    assert "STOP of this run" in said and "themselves private" in said
    assert "a public number" not in said and "removing a part" not in said
