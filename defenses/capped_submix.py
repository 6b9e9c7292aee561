"""Capped SubMix: every part moves the public model's answer by at most a public, constant amount.

After SubMix (arXiv 2201.00971), whose charges and STOP depend on the data. Here a part's weight
depends on its own member and the public model alone, and has two caps that make the charge a
constant (derived; see `mechanisms/caps.py`). So all queries of the budget are answered, and STOP is
public. With `multiple` above 1 the constant is larger, each part pays what a query costs it from an
account of its own, and is excluded where it cannot (see `accounts.py`). STOP stays public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import torch

from audit.core.corpus import Corpus
from audit.core.guarantee import Guarantee
from audit.core.layers import ALL, LAYERS
from audit.core.ledger import round_up
from audit.core.predictor import Access
from audit.core.rules import POSITIVE, SHARE, UNSAID, Rule, at_least, broken, one_of
from audit.core.terms import Relation
from defenses.ensembles import (
    ONE_TOKEN,
    ORDER,
    Constant,
    EnsembleDefense,
    Filter,
    Mixed,
    even_share,
    hashed_parts,
)
from defenses.ensembles.mechanisms.caps import Caps
from defenses.ensembles.promise import EMPTIED, FIXED_USERS, PER_USER, READ_ALIKE, READ_ALONE

_DELTA = 1e-5  # δ at which the claim per user is written as (ε, δ), too
_USERS = 10_000  # most users N for which that δ is at most 1/(10·N)
# between them 1 − w cancels in floating point, and with it what the public model keeps
_NOT_BESIDE_1 = Rule("at most 0.999999, or 1", lambda weight: weight <= 1 - 1e-6 or weight == 1)
_MULTIPLE = Rule("at least 1 and finite", lambda multiple: 1 <= multiple < math.inf)


@dataclass(frozen=True)
class CappedSubMix(EnsembleDefense):
    """Mixes models of k disjoint parts into the public model, each within a constant charge.

    epsilon: ε of a session in nats of D_α, per part under emptied; above 0.
    k: number of disjoint parts of the users, by a keyed hash, each training one model; at least 2.
    alpha: order α of the Rényi divergence; only 2 has a claim per user; at least 1.01.
    budget: number of queries B that a session answers before the public model takes over; at
        least 1.
    weight: largest weight w of a part's model against the public model; fixed before private data
        is seen; above 0, and at most 0.999999 or exactly 1.
    train: layers that each part trains: "all" that the recipe trains, or "top:N" for the last N
        blocks.
    source: source of the sampled tokens: "seed" (reproducible) or "system" (the operating system's
        entropy).
    multiple: how many even shares ε/B a query may cost a part, m; above 1, a part pays from an
        account of its own and is silent where it cannot; fixed before private data is seen; at
        least 1, at most budget.
    """

    epsilon: Annotated[float, POSITIVE] = 2.0
    k: Annotated[int, at_least(2)] = 16
    alpha: Annotated[float, ORDER] = 2.0
    budget: Annotated[int, at_least(1)] = 1024
    weight: Annotated[float, SHARE, _NOT_BESIDE_1] = 0.2
    train: Annotated[str, LAYERS] = ALL
    source: Annotated[str, one_of("seed", "system")] = "seed"
    multiple: Annotated[float, _MULTIPLE] = field(default=1.0, metadata=UNSAID)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.multiple > self.budget:
            words = f"at most budget, {self.budget}: no query may cost a part more than ε"
            raise broken("capped_submix", "multiple", self.multiple, words)

    @property
    def mechanism(self) -> CappedMixture:
        """Return the mixture in which a query costs a part at most m equal shares of ε."""
        charge = self.multiple * even_share(self.epsilon, self.budget)
        return CappedMixture(Caps(self.weight, self.k, self.alpha, charge))

    @property
    def account(self) -> Constant | Filter:
        """Return the account that charges equal shares, or each part what a query costs it."""
        most = self.mechanism.divergence
        if self.multiple == 1:
            return Constant(most, self.budget)
        return Filter(self.epsilon, self.budget, most)

    def parts(self, corpus: Corpus, seed: int) -> Sequence[Sequence[str]]:
        return hashed_parts(self.k, corpus, seed)

    @property
    def guarantee(self) -> Guarantee:
        alone = self.multiple > 1
        return self.per_part(
            relation=Relation.EMPTIED,
            theorem=self._theorem,
            conditions=(
                EMPTIED,
                *self._per_user,
                f"a part's model has at most the weight w = {self.weight:g}, so f = "
                f"{self.mechanism.caps.floor:.6g}; its weight depends on its own model and the "
                "public one alone" + (", and on what is left on its own account" if alone else ""),
                READ_ALONE if alone else READ_ALIKE,
                ONE_TOKEN,
            ),
        )

    @property
    def _theorem(self) -> str:
        composed = (
            "B queries composed"
            if self.multiple == 1
            else "an individual Rényi filter (Feldman and Zrnic, arXiv 2008.11193) composes them: "
            "what a part's account does not hold has weight 0 and costs nothing, so for every "
            "transcript what a part is charged sums to at most ε"
        )
        return (
            "capped SubMix (after arXiv 2201.00971), derived: with part i emptied, at "
            "least the share f = 1 − w(k−1)/k of the answer is the public model's pmf u, so the "
            "answers with part i and with it emptied are f·T + (1−f)·R and f·u + (1−f)·R; R is the "
            "same pmf in both, and T is u moved towards the part's own model; by joint convexity "
            "D_α of a query is at most log(1 + f·(e^((α−1)γ) − 1))/(α−1), where γ is the larger of "
            "D_α(T‖u) and D_α(u‖T); the part's weight keeps that within a constant; " + composed
        )

    @property
    def user_epsilon(self) -> float | None:
        """Bound D_2 of a session, nats, per user; None without a claim.

        The user is added, removed, or has other records under the same id. Then one part is
        replaced by any other part: 4ε/(1 − w/(kf)) (derived). A user replaced by one with another
        id is two changes, which this does not bound.
        """
        if self.alpha != 2.0 or self.weight == 1.0:
            return None
        return 4 * self.epsilon / (1 - self.mechanism.caps.step)

    @property
    def _per_user(self) -> tuple[str, ...]:
        """State the claim per user, its upper bounds rounded up, and what it rests on."""
        loss = self.user_epsilon
        if loss is None:
            return ("no claim per user: that one needs alpha=2 and weight below 1",)
        approximate = loss + math.log(0.5) - math.log(_DELTA) - math.log(2)
        return (
            f"{PER_USER}: D_2 of a session is at most "
            f"{round_up(loss):.6g} nats, or ({round_up(approximate):.6g}, {_DELTA:g})-DP "
            f"at a δ that suits up to {_USERS:,} users (arXiv 2004.00010, Proposition 12); derived "
            "for a part replaced by any other; it rests on parts by a keyed hash of the user, "
            "members trained apart, alpha=2 and weight below 1",
            FIXED_USERS,
        )


@dataclass(frozen=True)
class CappedMixture:
    """Mixes members into the public model, each with the largest weight within the caps."""

    caps: Caps
    access = Access.GENERATE
    reads_public = True

    @property
    def divergence(self) -> float:
        """Bound D_α of one query, nats, per part under emptied."""
        return self.caps.charge

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Compute log of h = u + (1/k)·Σ λ_i (h_i − u), (n, V), the largest λ_i within the caps,
        and what each part costs by its own member, (n, k), nats; the last model is public."""
        pmfs = log_pmfs.softmax(dim=-1)
        members, public = pmfs[:, :-1], pmfs[:, -1]
        weights = self.caps.weights(members, public)
        costs = self.caps.costs(members, public, weights)
        return Mixed(_log_mixture(pmfs, weights), weights, costs)


def _log_mixture(pmfs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Compute log of u + (1/k)·Σ λ_i (h_i − u), (n, V), of members and then u, (n, k + 1, V)."""
    shares = weights / weights.shape[1]
    rest = (1 - shares.sum(dim=-1, keepdim=True)).clamp_(min=0)
    return (torch.cat([shares, rest], dim=-1)[:, None] @ pmfs)[:, 0].log_()
