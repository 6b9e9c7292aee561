"""InvisibleInk on private records in prompts: one public model, each user's texts in one prompt.

Source: arXiv 2507.02974. Nothing is trained. Each reference moves the public prompt's logits by at
most a clipped amount. Two departures: users are dealt to batches by a keyed hash, and the divisor B
is public, so that a user who leaves moves nobody else. No top-k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.language_model import LanguageModel
from audit.core.ledger import round_up
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.release import Release
from audit.core.rules import POSITIVE, PROBABILITY, at_least, check_fields, one_of
from audit.core.terms import Unit
from audit.core.training import FineTuning, Trained, Training, owners
from defenses.ensembles import even_share
from defenses.ensembles.mechanisms.clipped_logits import ClippedLogits
from defenses.prompts import copying
from defenses.prompts.references import InPrompts
from defenses.prompts.release import ReferencesRelease
from defenses.prompts.session import Fees
from defenses.prompts.zcdp import Conversion, largest_rho

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

    def __post_init__(self) -> None:
        check_fields(NAME, self)

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
