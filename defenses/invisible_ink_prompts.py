"""InvisibleInk on private records in prompts: one public model, each user's texts in one prompt.

Source: arXiv 2507.02974. Nothing is trained. Each reference moves the public prompt's logits by at
most a clipped amount. Two departures: users are dealt to batches by a keyed hash, and the divisor B
is public, so that a user who leaves moves nobody else. No top-k.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
import torch

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.ensemble import Separate, log_mean
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee, default_delta, no_guarantee
from audit.core.language_model import LanguageModel
from audit.core.ledger import Ledger, round_up
from audit.core.model import ModelFolder
from audit.core.predictor import Access
from audit.core.randomness import derived_seed
from audit.core.release import Journal, Release
from audit.core.rules import POSITIVE, PROBABILITY, at_least, one_of
from audit.core.terms import Relation, Unit
from audit.core.training import FineTuning, Trained, Training, owners
from defenses.ensembles import Mechanism, Mixed, even_share
from defenses.ensembles.accounts import Account
from defenses.ensembles.mechanisms.clipped_logits import ClippedLogits
from defenses.ensembles.promise import FIXED_USERS, ONE_TOKEN, randomness
from defenses.ensembles.release import secret
from defenses.ensembles.session import EnsembleSession, Service
from defenses.prompts import copying
from defenses.prompts.copying import Copying
from defenses.prompts.prompted import Prompted
from defenses.prompts.references import Batch, InPrompts
from defenses.prompts.session import BatchAccount, BatchedSession, Fees, NoAccount
from defenses.prompts.zcdp import Conversion, conversion, largest_rho

NAME = "invisible_ink_prompts"


@dataclass(frozen=True)
class InvisibleInkPrompts(Defense):
    """Adds to the public prompt's logits the mean of the references' clipped changes of them.

    epsilon: ε of a session in nats, at δ, per user under add_or_remove; above 0.
    delta: δ of the guarantee; default min(1/(10·N), 1e-5) for N users; between 0 and 1.
    references: B, the mean number of users in a batch and the divisor of their changes; at least 1.
    tokens: T, tokens that each batch answers before the public model takes over; at least 1.
    temperature: τ, at which tokens are sampled from the public model and the references; above 0.
    longest: tokens to which a reference, all distinct texts of a user, is cut; at least 1.
    source: source of the sampled tokens: "seed" (reproducible) or "system" (the operating system's
        entropy).
    """

    epsilon: Annotated[float, POSITIVE] = 8.0
    delta: Annotated[float | None, PROBABILITY] = None
    references: Annotated[int, at_least(1)] = 8
    tokens: Annotated[int, at_least(1)] = 64
    temperature: Annotated[float, POSITIVE] = 1.0
    longest: Annotated[int, at_least(1)] = 192
    source: Annotated[str, one_of("seed", "system")] = "seed"

    def mechanism(self, delta: float) -> ClippedLogits:
        """Find the widest clip C = Bτ√(2ρ/T) with which T tokens cost at most ε at δ."""
        found = self._loss(delta)
        bound = self.references * self.temperature * math.sqrt(2 * found.rho / self.tokens)
        return ClippedLogits(bound, found.order, self.references, self.temperature)

    def fees(self, delta: float) -> Fees:
        """Return what a batch's account is charged; T tokens come to at most ε."""
        each = self.mechanism(delta).divergence * (1 + 1e-9)
        return Fees(round_up(self._loss(delta).once), round_up(each), self.tokens)

    def _loss(self, delta: float) -> Conversion:
        return largest_rho(even_share(self.epsilon, 1), delta)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        """Name two trainings that train nothing: the references, and public texts beside them."""
        self._check(corpus, model)
        users = corpus.population.users
        method = InPrompts(
            users // self.references, self.longest, users, derived_seed(seed, NAME, "batches")
        )
        records = corpus.of("private")
        texts = tuple(record.text for record in records)
        public = tuple(record.text for record in corpus.of("public")) or corpus.spare
        seed = derived_seed(seed, NAME, "references")
        return (
            Training(f"{NAME} references", texts, method, seed, owners(records, Unit.USER)),
            Training(f"{NAME} public texts", copying.spread_out(public), method, seed),
        )

    def _check(self, corpus: Corpus, model: ModelFolder) -> None:
        """Raise UsageError for fewer users than a batch has, or no context beside a reference."""
        users = corpus.population.users
        if users < self.references:
            raise UsageError(
                f"{NAME}: references is {self.references}, but only {users} users are trained on; "
                "lower references"
            )
        if self.longest >= model.max_length:
            raise UsageError(
                f"{NAME}: longest is {self.longest}, but {model.name} reads {model.max_length} "
                "tokens, a reference and the text after it; lower longest"
            )

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        references, known = (each.training for each in trained)
        method = references.method
        if not isinstance(method, InPrompts):
            raise UsageError(f"{NAME}: its references are private texts, which no export carries")
        batches = method.references(references, public.tokenizer)
        return ReferencesRelease(self, public, batches, method.population, known.texts)


@dataclass(frozen=True)
class ReferencesRelease(Release):
    """Serves predictions of one model with private references in its prompts.

    It has no neighbours: an account is of a batch, and a neighbour would have one user less.

    batches: the references of each. population: N, public. known: public texts on which it is
    measured whether the model copies. bare: whether without protection.
    """

    settings: InvisibleInkPrompts
    public: LanguageModel
    batches: tuple[Batch, ...]
    population: int
    known: tuple[str, ...] = ()
    bare: bool = False

    @property
    def delta(self) -> float:
        """δ: the parameter, or the default for N users."""
        return self.settings.delta or default_delta(self.population)

    @cached_property
    def copying(self) -> Copying:
        """Return whether the model copies from its prompt, measured on public texts."""
        return copying.measure(self.public, self.known, self.settings.longest)

    @property
    def unheard(self) -> str:
        return self.copying.unheard

    @property
    def guarantee(self) -> Guarantee:
        if self.bare:
            return no_guarantee("the plain mean of a batch's references has no guarantee")
        return Guarantee(
            epsilon=self.settings.epsilon,
            delta=self.delta,
            unit=Unit.USER,
            relation=Relation.ADD_OR_REMOVE,
            release="predictions",
            basis="worst case",
            theorem="InvisibleInk (arXiv 2507.02974, Theorem 2): a reference moves every logit by "
            "at most C/B, so a sampled token is C²/(2B²τ²)-zCDP; T tokens of a batch composed, "
            "batches are disjoint; (ε, δ) by arXiv 2004.00010, Proposition 12",
            conditions=self._conditions,
            population=self.population,
        )

    @property
    def _conditions(self) -> tuple[str, ...]:
        own, n, bound = self.settings, len(self.batches), self.settings.mechanism(self.delta).bound
        replaced = conversion(4 * own.tokens * own.mechanism(self.delta).rho, self.delta).epsilon
        return (
            "a user who is not there is an empty reference, whose prompt is the public prompt: "
            "batches are a keyed hash of the user, and their number and the divisor B are public, "
            "so no other user's batch or share moves",
            f"each logit is moved by Σ clip(φ_i − φ, −C, C)/B, with C = {bound:.6g} and "
            f"B = {own.references}; C and the settings it follows from are fixed before private "
            "data is seen",
            f"prompt number p is answered from batch p mod {n}; each batch answers {own.tokens} "
            "tokens, then the public model does; ε is that of all of them",
            f"per user whose records are replaced under the same id: "
            f"({round_up(replaced):.6g}, {self.delta:g})-DP, four times as much zCDP",
            f"all records of a user are one reference, each distinct text once, cut to "
            f"{own.longest} tokens: what is beyond is in no prompt and cannot leak; a text in "
            "several users' references of a batch is protected less: its loss grows about with the "
            "square of their number",
            f"N is fixed beforehand; {FIXED_USERS}",
            "each session spends a budget of its own: the losses of several sessions add up",
            ONE_TOKEN,
            randomness(own.source),
            "tokens are drawn in float64, not on the real line",
            f"no condition, but what silence of an attack is worth: {self.copying.sentence}",
        )

    def open(self, stream: np.random.Generator, journal: Journal) -> BatchedSession:
        key = secret(self.settings.source, journal)
        sessions = [
            EnsembleSession(self._service(batch, account), ledger, stream, key)
            for batch, (account, ledger) in zip(self.batches, self._accounts(journal), strict=True)
        ]
        return BatchedSession(sessions, Access.SCORE if self.bare else Access.DISTRIBUTION)

    def _accounts(self, journal: Journal) -> list[tuple[Account, Ledger]]:
        """Return the account of each batch, and the ledger that holds it."""
        n = len(self.batches)
        if self.bare:
            return [(NoAccount(), Ledger(math.inf, 0, sys.maxsize, journal)) for _ in range(n)]
        fees = self.settings.fees(self.delta)
        ledger = Ledger(fees.total, n, sys.maxsize, journal)
        return [(BatchAccount(batch, fees), ledger) for batch in range(n)]

    def _service(self, batch: Batch, account: Account) -> Service:
        """Answer from a batch's references, read one by one, and the public prompt, read alone."""
        members = (*(Prompted(self.public, tokens) for tokens in batch), self.public)
        public_size = self.settings.references + 1  # what is read together must not tell how many
        return Service(self._mechanism, account, Separate(members), public_size, self.public)

    @cached_property
    def _mechanism(self) -> Mechanism:
        return PlainMean() if self.bare else Guided(self.settings.mechanism(self.delta))

    def unprotected(self) -> Release | None:
        """Return the plain mean of each batch's references, which shows what the clip hides."""
        return None if self.bare else replace(self, bare=True)


@dataclass(frozen=True)
class Guided:
    """Clipped logits of a batch. What a token costs each reference on this data is not computed."""

    logits: ClippedLogits
    access = Access.GENERATE
    reads_public = True

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        return Mixed(self.logits.answer(log_pmfs))


@dataclass(frozen=True)
class PlainMean:
    """The mean of the references' pmfs, without any protection; the public model's, if none."""

    access = Access.SCORE
    reads_public = True

    def mix(self, log_pmfs: torch.Tensor, seeds: Sequence[bytes]) -> Mixed:
        """Mix n queries (n, B + 1, V), the public model last."""
        return Mixed(log_mean(log_pmfs[:, :-1] if log_pmfs.shape[1] > 1 else log_pmfs))
