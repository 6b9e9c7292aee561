"""GNMax charged by the data at hand: costs by hand, a STOP that follows, a claim that says so."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from audit.core.errors import UsageError
from audit.core.release import NoJournal
from audit.gate.claims import unsatisfied
from audit.gate.policy import ClaimLimit
from defenses.ensembles import ByData, Constant
from defenses.ensembles.mechanisms.local_votes import divergences
from defenses.ensembles.mechanisms.mixing_weights import divergence
from defenses.ensembles.mechanisms.votes import votes, winning
from defenses.gnmax import GNMax, NoisyVotes
from tests.defenses.journal import Memory
from tests.defenses.services import toy

release = partial(toy, GNMax)


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


def test_no_replaced_part_tells_more_than_it_is_charged() -> None:
    made, kept = (
        release(epsilon=99.0, noise_multiplier=0.9, charge="data", budget=30),
        Memory(),
    )
    session = made.open(np.random.default_rng(0), kept)
    text = [0, *np.random.default_rng(2).integers(6, size=20).tolist()]
    law = torch.from_numpy(session.laws([text[:1]], [text[1:]]).log_pmfs)
    charged = torch.tensor([row["charge"] for row in kept.rows if not row["stopped"]])
    assert len(law) == len(charged) == 20
    nearest = 0.0
    for part in range(4):
        other = made.replaced(part).open(np.random.default_rng(1), NoJournal())
        its = torch.from_numpy(other.laws([text[:1]], [text[1:]]).log_pmfs)[: len(law)]
        both = torch.maximum(divergence(law, its, 2.0), divergence(its, law, 2.0))
        assert bool((both <= charged[: len(both), part] + 1e-9).all())
        nearest = max(nearest, float((both / charged[: len(both), part]).max()))
    assert nearest > 0.9  # some other part casts the very vote that is charged


def test_the_claim_is_data_dependent_and_never_ranked_with_a_worst_case() -> None:
    worst = release(epsilon=2.0).guarantee
    data = release(epsilon=2.0, noise_multiplier=9.0, charge="data").guarantee
    assert (worst.basis, data.basis) == ("worst case", "data-dependent")
    assert data.epsilon == worst.epsilon == 2.0
    assert (data.relation, data.also) == ("replace", ())  # a removed part's cost is not computed
    assert "basis" in (data.incomparable_to(worst) or "")
    limit = ClaimLimit(2.0, "part", "replace", alpha=2.0)
    assert unsatisfied(limit, worst) is None
    assert "data-dependent" in (unsatisfied(limit, data) or "")
    said = " ".join(data.conditions)
    assert "STOP of this run" in said and "themselves private" in said
    assert "a public number" not in said and "removing a part" not in said


@pytest.mark.parametrize(
    "given", [{}, {"epsilon": None}, {"epsilon": None, "noise_multiplier": 2.0}]
)
def test_a_charge_by_data_needs_epsilon_and_noise(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="give both epsilon and noise_multiplier"):
        GNMax(charge="data", **given)
    with pytest.raises(UsageError, match="charge is Theorem 6; it must be worst or data"):
        GNMax(charge="Theorem 6")
