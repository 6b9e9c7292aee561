"""SubMix: private next-token prediction by an ensemble that mixes itself into the public model.

Source: arXiv 2201.00971, Algorithms 1 and 2. Each query releases one sampled token. Every part has
its own ledger, a query is charged before it is answered, and STOP is final.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from audit.core.corpus import Corpus
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel, Tempered
from audit.core.layers import ALL, LAYERS
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.rules import POSITIVE, Rule, at_least, one_of
from audit.core.terms import Relation, Unit
from audit.core.training import FineTuning, Trained, Training
from defenses.ensembles import ONE_TOKEN, ORDER, ByData, EnsembleDefense, EnsembleRelease
from defenses.ensembles.mechanisms.mixing import Mixing
from defenses.ensembles.parts import even_users
from defenses.ensembles.promise import each_session, randomness

_NAMED = {"paper": 1.0, "small": 16.0}  # β is ε/B divided by this
_BETA = Rule(
    f"{' or '.join(_NAMED)}, or a number above 0",
    lambda beta: beta in _NAMED if isinstance(beta, str) else POSITIVE.holds(beta),
)


@dataclass(frozen=True)
class SubMix(EnsembleDefense):
    """Mixes the predictions of an ensemble on k disjoint parts with the public model's.

    epsilon: privacy budget ε of every part and session, in nats of D_α, under removed; above 0.
    k: number of disjoint parts of the users, each training two models on half its users; at
        least 2.
    alpha: order α of the Rényi divergence; at least 1.01.
    budget: most queries B that a session answers before the public model takes over; at least 1.
    beta: target leakage β of a query, fixed before the first: "paper" is ε/B; "small" is a 16th of
        that, for where a session with "paper" stops early; or a number of nats above 0.
    clip: bound c that clips every member's pmf to [e^−c, e^c]·h_∅; default off; above 0.
    temperature: temperature T of the sampled tokens; the tempered distributions are charged;
        above 0.
    train: layers that members train: "all" that the recipe trains, or "top:N" for the last N
        blocks, which makes queries faster because all models share the layers below.
    source: source of the sampled tokens: "seed" (reproducible) or "system" (the operating system's
        entropy).
    """

    epsilon: Annotated[float, POSITIVE] = 2.0
    k: Annotated[int, at_least(2)] = 8
    alpha: Annotated[float, ORDER] = 2.0
    budget: Annotated[int, at_least(1)] = 1024
    beta: Annotated[float | str, _BETA] = "paper"
    clip: Annotated[float | None, POSITIVE] = None
    temperature: Annotated[float, POSITIVE] = 1.0
    train: Annotated[str, LAYERS] = ALL
    source: Annotated[str, one_of("seed", "system")] = "seed"

    @property
    def leakage(self) -> float:
        """Return β in nats. "paper" is that of Appendix B.1.

        A smaller one moves the public model less and answers more queries. That helps where single
        queries cost a part hundreds of β, and hurts where the session never stops.
        """
        if isinstance(self.beta, str):
            return self.epsilon / self.budget / _NAMED[self.beta]
        return self.beta

    @property
    def mechanism(self) -> Mixing:
        return Mixing(self.alpha, self.leakage, self.clip, self.temperature)

    @property
    def account(self) -> ByData:
        return ByData(self.epsilon, self.budget, share=0.0, room=0.0)  # its charges are exact

    def parts(self, corpus: Corpus, seed: int) -> Sequence[Sequence[str]]:
        """Run Algorithm 1: deal the users to k parts at random, and halve each part."""
        users = even_users(self.name, self.k, corpus, seed)
        halves = (half for part in users for half in (part[0::2], part[1::2]))
        return [[text for user in half for text in user] for half in halves]

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        return tuple(
            replace(
                member,
                label=f"submix part {i // 2 + 1}/{self.k}, half {i % 2 + 1}",
                seed=derived_seed(seed, "submix", "member", i),
            )
            for i, member in enumerate(super().trainings(corpus, model, recipe, seed))
        )

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> EnsembleRelease:
        """Serve two models a part, and the tempered public model after STOP."""
        after = Tempered(public, self.temperature)
        return replace(super().release(public, trained), each=2, after_stop=after)

    @property
    def guarantee(self) -> Guarantee:
        conditions = [
            "holds for this data set, this partition of the users and the STOP of this run",
            "when the run without a part would have stopped is not charged; the published "
            "Proposition C.3 (+ log CB) and Theorem C.1 (user level) are unproved and not claimed",
            ONE_TOKEN,
            "a secret in several parts is protected less, a secret in all parts not at all",
            f"β = {self.leakage:.6g} nats a query, fixed before the first query",
            randomness(self.source),
            each_session(self.budget),
        ]
        if self.clip is not None:
            c = f"{self.clip:g}"
            conditions.append(f"members are clipped to [e^−{c}, e^{c}] × public")
        if self.temperature != 1.0:
            conditions.append(f"tokens are sampled and charged at temperature {self.temperature:g}")
        return Guarantee(
            epsilon=self.epsilon,
            alpha=self.alpha,
            unit=Unit.PART,
            relation=Relation.REMOVED,
            release="predictions",
            basis="data-dependent",
            theorem="SubMix (arXiv 2201.00971), Algorithm 2: for every part, the charged Rényi "
            "divergences of the answered queries sum to at most ε",
            conditions=tuple(conditions),
        )
