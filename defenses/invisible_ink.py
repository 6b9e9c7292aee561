"""InvisibleInk: each reference moves the public model's logits by at most a clipped amount.

Source: arXiv 2507.02974, whose references are private records in the prompt of one model. Here
they are models of k disjoint parts of the users (its footnote 3). Sampling a token from a softmax
is the exponential mechanism, so clipping the logits' changes bounds the loss. No top-k, and
temperature 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from audit.accounting.renyi import least_epsilon
from audit.core.corpus import Corpus
from audit.core.guarantee import Guarantee
from audit.core.layers import ALL, LAYERS
from audit.core.ledger import round_up
from audit.core.rules import POSITIVE, at_least, one_of
from audit.core.terms import Relation
from defenses.ensembles import (
    ONE_TOKEN,
    ORDER,
    Constant,
    EnsembleDefense,
    even_share,
    hashed_parts,
)
from defenses.ensembles.mechanisms.clipped_logits import ClippedLogits
from defenses.ensembles.promise import EMPTIED, FIXED_USERS, PER_USER, READ_ALIKE

_DELTA = 1e-5  # δ at which the claim per user is written as (ε, δ), too
_REACH = 1e4  # largest order of that conversion, less 1


@dataclass(frozen=True)
class InvisibleInk(EnsembleDefense):
    """Adds to the public model's logits the mean of the parts' clipped changes of them.

    epsilon: ε of a session in nats of D_α, per part under emptied; above 0.
    k: number of disjoint parts of the users, by a keyed hash, each training one model; at least 2.
    alpha: order α of the Rényi divergence; at least 1.01.
    budget: number of queries B that a session answers before the public model takes over; at
        least 1.
    train: layers that each part trains: "all" that the recipe trains, or "top:N" for the last N
        blocks.
    source: source of the sampled tokens: "seed" (reproducible) or "system" (the operating system's
        entropy).
    """

    epsilon: Annotated[float, POSITIVE] = 2.0
    k: Annotated[int, at_least(2)] = 16
    alpha: Annotated[float, ORDER] = 2.0
    budget: Annotated[int, at_least(1)] = 1024
    train: Annotated[str, LAYERS] = ALL
    source: Annotated[str, one_of("seed", "system")] = "seed"

    @property
    def mechanism(self) -> ClippedLogits:
        """Find the widest clip C with which B queries cost at most ε."""
        charge = even_share(self.epsilon, self.budget)
        return ClippedLogits(self.k * math.sqrt(2 * charge / self.alpha), self.alpha, self.k)

    @property
    def account(self) -> Constant:
        return Constant(self.mechanism.divergence, self.budget)

    def parts(self, corpus: Corpus, seed: int) -> Sequence[Sequence[str]]:
        return hashed_parts(self.k, corpus, seed)

    @property
    def guarantee(self) -> Guarantee:
        return self.per_part(
            relation=Relation.EMPTIED,
            theorem="InvisibleInk (arXiv 2507.02974, Theorem 2), references are the parts' models: "
            "emptying a part moves every logit by at most C/k, so a sampled token is "
            "(C/k)²/2-zCDP: D_α ≤ α·C²/(2k²) for every α; B queries composed",
            conditions=(
                EMPTIED,
                self._per_user,
                FIXED_USERS,
                f"each logit is moved by the mean of the parts' changes, each change clipped to "
                f"[−C, C] with C = {self.mechanism.bound:.6g}; C and the settings it follows from "
                "are fixed before private data is seen",
                READ_ALIKE,
                ONE_TOKEN,
            ),
        )

    @property
    def user_epsilon(self) -> float:
        """Bound D_α of a session, nats, per user who is added, removed or has other records.

        Then one part is replaced by any other, which moves a logit by at most 2C/k: four times ρ.
        """
        return 4 * self.epsilon

    @property
    def _per_user(self) -> str:
        """State the claim per user, its upper bounds rounded up, and what it rests on."""
        rho = self.user_epsilon / self.alpha
        approximate = least_epsilon(lambda order: order * rho, _REACH, math.log(_DELTA))
        return (
            f"{PER_USER}: D_α of a session is at most "
            f"{round_up(self.user_epsilon):.6g} nats, or "
            f"({round_up(approximate):.6g}, {_DELTA:g})-DP (arXiv 2004.00010, Proposition 12); "
            "derived for a part replaced by any other; it rests on parts by a keyed hash of the "
            "user and members trained apart"
        )
