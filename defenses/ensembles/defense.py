"""A defense whose models of disjoint parts answer queries: all that is not of one mechanism."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.layers import ALL
from audit.core.ledger import round_up
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.terms import Unit
from audit.core.training import FineTuning, Trained, Training
from defenses.ensembles.accounts import PartsAccount
from defenses.ensembles.mechanism import Mechanism
from defenses.ensembles.parts import even_parts
from defenses.ensembles.promise import each_session, randomness
from defenses.ensembles.release import EnsembleRelease
from defenses.training.checks import check_layers


class EnsembleDefense(Defense):
    """Trains a model a part of the users, and serves all of them behind a mechanism.

    These are fields of every subclass; their rules and defaults are its own.
    epsilon: ε of a session in nats of D_α, per part; None where it follows from the noise.
    k: number of disjoint parts. alpha: order α. budget: number of queries B of a session.
    train: layers that each part trains, "all" or "top:N". source: of all randomness, "seed" or
        "system".
    """

    epsilon: float | None
    k: int
    alpha: float
    budget: int
    train: str
    source: str

    @property
    @abstractmethod
    def mechanism(self) -> Mechanism:
        """The mechanism, which computes an answer from those of the members."""

    @property
    @abstractmethod
    def account(self) -> PartsAccount:
        """The account, which charges a query to the parts."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee of a session; see `per_part`."""

    def parts(self, corpus: Corpus, seed: int) -> Sequence[Sequence[str]]:
        """Return the texts that each member is trained on; by default parts are even and random."""
        return even_parts(self.name, self.k, corpus, seed)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        """Name one training a member; a member without texts is the public model.

        Defenses with equal settings and parts share the models.
        """
        check_layers(self.name, self.train, model)
        method = recipe if self.train == ALL else replace(recipe, layers=self.train)
        return tuple(
            Training(
                label=f"{self.name} part {i + 1}/{self.k}",
                texts=tuple(texts),
                method=method,
                seed=derived_seed(seed, "ensemble", "member", i),
            )
            for i, texts in enumerate(self.parts(corpus, seed))
        )

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> EnsembleRelease:
        members = tuple(each.model for each in trained)
        return EnsembleRelease(
            self.mechanism, self.account, public, members, self.guarantee, self.source
        )

    def per_part(
        self, *, relation: str, theorem: str, conditions: Sequence[str], also: tuple[str, ...] = ()
    ) -> Guarantee:
        """State the guarantee of a session: D_α of all its queries, per part.

        conditions: those of all ensembles are added. Raises ValueError for an ε (nats) below what
        the account can charge.
        """
        account, target = self.account, self.epsilon
        spends = account.spends
        if target is not None and not spends <= target:
            raise ValueError(f"{account.budget} queries cost {spends:g} nats, above ε = {target:g}")
        return Guarantee(
            epsilon=round_up(spends) if target is None else target,
            alpha=self.alpha,
            unit=Unit.PART,
            relation=relation,
            also=also,
            release="predictions",
            basis=account.basis,
            theorem=theorem,
            conditions=(
                *conditions,
                *account.conditions,
                each_session(account.budget),
                "all records of a user are in one part; a text in several parts is protected less: "
                "its loss grows about with the square of their number",
                randomness(self.source),
                "noise and tokens are drawn in float64, not on the real line",
            ),
        )
