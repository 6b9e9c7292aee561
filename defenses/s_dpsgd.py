"""Selective-DPSGD (arXiv 2108.12944): protects only what a policy marks.

Neighbours differ in the private tokens of one record, with the same mask and the same number of
tokens. So the relation is replace, and the length of a secret is public. Three schedules:

    twice        Fine-tunes on redacted text, then runs DP-SGD on the original (arXiv 2204.07667).
                 Works for any model; the only one for transformers, where public tokens attend to
                 private ones.
    independent  For an LSTM: private and public steps draw independent batches.
    paper        For an LSTM: Algorithm 1 as published, for reproduction. Its published accounting
                 does not hold; the sound one has no amplification and charges the states h and c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from audit.accounting import Gaussians, Mechanism, Term, moments
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee, default_delta
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.rules import POSITIVE, PROBABILITY, VISIBLE, one_of
from audit.core.spans import merged
from audit.core.terms import Relation, Unit
from audit.core.training import FineTuning, Training, owners
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.selective import SelectiveRecipe
from audit.models.training.selective_as_published import AlternatingRecipe
from defenses.training import checks, noisy_sums
from defenses.training.redacting import check_marks, redacting

UNIT, RELATION = Unit.ATTRIBUTES, Relation.REPLACE


@dataclass(frozen=True)
class SDPSGD(Defense):
    """Protects what the policy marks by DP-SGD and trains on the rest without noise.

    epsilon: target ε in nats, at δ, for the private attributes of one record under replace; above
        0, or none with noise_multiplier.
    delta: δ of the guarantee; default min(1/(10·N), 1e-5) for N records; between 0 and 1.
    schedule: "twice", "independent" or "paper"; "auto" is independent for an LSTM, else twice.
    noise_multiplier: noise standard deviation σ over the clipping norm, instead of a target ε;
        above 0, with epsilon=none.
    clip: norm C to which the private gradient of each record is clipped; above 0.
    batch: expected batch size B, sampled with q = B/N (schedule=paper: exact size); default half
        of all records, at most 512; 1 to N.
    epochs: how often a record's private part is read on average, in T = epochs/q steps; above 0.
    learning_rate: peak rate of the private steps, falling to zero; default the plan's, which the
        public steps use; above 0.
    optimizer: optimizer of the private steps: "adamw" or "sgd".
    hidden: state in which a public run starts after a private one (schedule=independent): "reset"
        (zero) or "noise" (the clipped and noised state, which is charged).
    hidden_noise: noise multiplier σ_h of each noised hidden and cell state; above 0.
    hidden_clip: norm to which h and c are each clipped; above 0.
    transitions: most noised states that a record releases in an epoch, at least 1; later public
        runs start from zero.
    mask: word in place of a private span in the first phase of schedule=twice; not blank.
    noise: source of the noise: "seed" (reproducible) or "system" (the operating system's entropy).
    """

    epsilon: Annotated[float | None, POSITIVE] = 8.0
    delta: Annotated[float | None, PROBABILITY] = None
    schedule: Annotated[str, one_of("auto", "twice", "independent", "paper")] = "auto"
    noise_multiplier: Annotated[float | None, POSITIVE] = None
    clip: Annotated[float, POSITIVE] = 1.0
    batch: Annotated[int | None, POSITIVE] = None
    epochs: Annotated[float, POSITIVE] = 15.0
    learning_rate: Annotated[float | None, POSITIVE] = None
    optimizer: Annotated[str, one_of("adamw", "sgd")] = "adamw"
    hidden: Annotated[str, one_of("reset", "noise")] = "reset"
    hidden_noise: Annotated[float, POSITIVE] = 30.0
    hidden_clip: Annotated[float, POSITIVE] = 1.0
    transitions: Annotated[int, POSITIVE] = 4
    mask: Annotated[str, VISIBLE] = "_"
    noise: Annotated[str, one_of("seed", "system")] = "seed"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_noise("s_dpsgd", self.epsilon, self.noise_multiplier)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        check_marks("s_dpsgd", corpus)
        kind = self._schedule(model)
        drawn = noisy_sums.sampling("s_dpsgd", corpus.population.records, self.batch, self.epochs)
        records = corpus.of("private")
        before = None
        if kind == "twice":
            before = redacting("s_dpsgd", corpus, recipe, self.mask, seed)
        most = max(len(merged(record.private)) for record in records)
        delta = self.delta or default_delta(drawn.population)
        method = self._method(kind, drawn, recipe, most)
        return [
            Training(
                f"s_dpsgd, {kind}",
                tuple(record.text for record in records),
                noisy_sums.noised(method, self.epsilon, self.noise_multiplier, delta, RELATION),
                derived_seed(seed, "s_dpsgd", model.sha256, "training"),
                owners=owners(records, "record"),
                private=tuple(record.private for record in records),
                after=before,
            )
        ]

    def _schedule(self, model: ModelFolder) -> str:
        if self.schedule == "auto":
            return "independent" if model.kind == "lstm" else "twice"
        if self.schedule != "twice" and model.kind != "lstm":
            raise UsageError(
                f"s_dpsgd: schedule={self.schedule} needs an LSTM (--model lstm); in a transformer "
                "public tokens attend to private ones: use schedule=twice"
            )
        return self.schedule

    def _method(
        self, kind: str, drawn: noisy_sums.Sampling, recipe: FineTuning, most: int
    ) -> noisy_sums.Released:
        """Build the method, without noise yet.

        most: the largest number of private spans in one record, which the mask makes public.
        """
        noise = Noise(0.0, self.clip, self.noise)
        hidden = Noise(self.hidden_noise, self.hidden_clip, self.noise)
        rate = self.learning_rate or recipe.learning_rate
        q, steps, population = drawn.probability, drawn.steps, drawn.population
        if kind == "twice":
            return noisy_sums.without_noise(noise, self.optimizer, drawn, rate, recipe)
        if kind == "independent":
            return SelectiveRecipe(
                noise=noise,
                sampling_probability=q,
                steps=steps,
                population=population,
                learning_rate=rate,
                optimizer=self.optimizer,
                public=recipe,
                hidden=self.hidden,
                hidden_noise=hidden,
                transitions=self.transitions,
            )
        return AlternatingRecipe(
            noise=noise,
            hidden_noise=hidden,
            batch=max(1, round(q * population)),
            epochs=max(1, round(self.epochs)),
            private_runs=most,
            population=population,
            learning_rate=rate,
            public_learning_rate=recipe.learning_rate,
            optimizer=self.optimizer,
            max_length=recipe.max_length,
        )

    def promised(self, trainings: Sequence[Training]) -> Guarantee:
        (only,) = trainings
        method = only.method
        assert isinstance(method, PrivateRecipe | SelectiveRecipe | AlternatingRecipe)
        delta = self.delta or default_delta(method.population)
        how, neighbours = _theorem(method)
        published = Mechanism((_published(method),), Relation.ADD_OR_REMOVE)
        return noisy_sums.promised(
            Mechanism(method.releases, RELATION),
            population=method.population,
            unit=UNIT,
            delta=delta,
            theorem=how,
            source=self.noise,
            conditions=(neighbours, *_CONDITIONS),
            published_epsilon=moments(published, delta),
        )


def _published(method: noisy_sums.Released) -> Term:
    """Return what the paper accounts for: one sampled gradient a batch, and no state."""
    if not isinstance(method, AlternatingRecipe):
        return method.releases[0]
    steps = max(1, round(method.epochs * method.population / method.batch))
    return Gaussians(method.noise.multiplier, steps, min(1.0, method.batch / method.population))


def _theorem(method: noisy_sums.Released) -> tuple[str, str]:
    """Return the theorem behind the guarantee, and the neighbours that it compares."""
    if isinstance(method, PrivateRecipe):
        return _TWICE, _SAME_SPANS
    if isinstance(method, AlternatingRecipe):
        return _PAPER, _SAME_TOKENS
    return _RESET if method.hidden == "reset" else _NOISE, _SAME_TOKENS


_SAME_SPANS = (
    "neighbours differ in marked characters only, and have the same spans marked: the places of "
    "secrets are public"
)
_SAME_TOKENS = (
    "neighbours differ in private tokens only, with the same tokens private and the same number of "
    "tokens: the places and lengths of secrets, the parts of public words that share a token with "
    "a secret, and the largest number of private runs in a record are public"
)
_CONDITIONS = (
    "text that the policy does not mark is trained on without protection: its leaks are outside "
    "this guarantee",
    "the private attributes of one record are protected; the losses of a user's several records, "
    "and of repeats of one text, add up",
)
_TWICE = (
    "fine-tuned on redacted text, then DP-SGD on the original (arXiv 2204.07667): "
    "Poisson-subsampled Gaussian, replace-one privacy loss distributions"
)
_RESET = (
    "Selective-DPSGD (arXiv 2108.12944), private and public steps on independent batches: "
    "Poisson-subsampled Gaussian, replace-one privacy loss distributions; public runs start from "
    "the zero state"
)
_NOISE = (
    "Selective-DPSGD (arXiv 2108.12944), private and public steps on independent batches: "
    "replace-one privacy loss distributions of the subsampled gradients and, unamplified, of every "
    "noised hidden and cell state"
)
_PAPER = (
    "Selective-DPSGD (arXiv 2108.12944), Algorithm 1: every private run's gradient and every "
    "noised hidden and cell state, without amplification, replace"
)
