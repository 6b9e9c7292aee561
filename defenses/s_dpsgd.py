"""Selective-DPSGD (arXiv 2108.12944): only what a policy marks is protected, with noise.

Neighbours differ in the private tokens of one record, under the same mask and with as many tokens:
the relation is replace, and how long a secret is, is public. Three schedules:

    twice        fine-tune on redacted text, then DP-SGD on the original (arXiv 2204.07667); any
                 model, and the only form for transformers, whose public tokens see private ones.
    independent  an LSTM; private and public steps draw independent batches.
    paper        an LSTM; Algorithm 1 to the letter, for reproduction. Its published accounting
                 does not hold; the sound one has no amplification and charges h and c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.accounting import Gaussians, Mechanism, moments
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.release import ModelRelease, Release
from audit.core.spans import merged
from audit.core.training import FineTuning, Method, Trained, Training, owners
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.selective import SelectiveRecipe
from audit.models.training.selective_as_published import AlternatingRecipe
from defenses import _checks, _private
from defenses._redacting import check_marks, redacting

UNIT, RELATION = "private attributes of a record", "replace"


@dataclass(frozen=True)
class SDPSGD(Defense):
    """Protects what the policy marks by DP-SGD and trains on the rest without noise.

    epsilon: target, in nats (unit: private attributes of a record; relation: replace; at δ).
    delta: δ; 1/(10·N) for N records unless given.
    schedule: "twice", "independent" or "paper"; auto: independent for an LSTM, else twice.
    noise_multiplier: σ, noise over clipping norm, instead of a target; with epsilon=none.
    clip: C, the norm every record's private gradient is clipped to.
    batch: B, the expected batch, q = B/N (schedule=paper: its size); half of all records, at most
        512, unless given.
    epochs: how often a record's private part is read on average; T = epochs/q steps.
    learning_rate: of the private steps, falling to zero; the plan's, which the public ones follow,
        unless given.
    optimizer: "adamw" or "sgd", of the private steps.
    hidden: what enters a public run after a private one (schedule=independent): the zero state,
        "reset", or "noise", the clipped and noised state, which is charged.
    hidden_noise: σ_h of each noised hidden and cell state.
    hidden_clip: the norm h and c are clipped to, each.
    transitions: noised states a record releases an epoch, at most; later runs start from zero.
    mask: what stands for a private span in the first phase of schedule=twice.
    noise: "seed", reproducible, or "system", from the operating system.
    """

    epsilon: float | None = 8.0
    delta: float | None = None
    schedule: str = "auto"
    noise_multiplier: float | None = None
    clip: float = 1.0
    batch: int | None = None
    epochs: float = 15.0
    learning_rate: float | None = None
    optimizer: str = "adamw"
    hidden: str = "reset"
    hidden_noise: float = 30.0
    hidden_clip: float = 1.0
    transitions: int = 4
    mask: str = "_"
    noise: str = "seed"

    def __post_init__(self) -> None:
        _checks.check_noise("s_dpsgd", self.epsilon, self.noise_multiplier)
        positive = ("clip", "batch", "epochs", "learning_rate", "hidden_noise", "hidden_clip")
        _checks.check_positive(self, "s_dpsgd", *positive, "transitions")
        _checks.check_delta("s_dpsgd", self.delta)
        _checks.check_choice(
            self,
            "s_dpsgd",
            schedule=("auto", "twice", "independent", "paper"),
            optimizer=("adamw", "sgd"),
            hidden=("reset", "noise"),
            noise=("seed", "system"),
        )
        _checks.check_mask("s_dpsgd", self.mask)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        check_marks("s_dpsgd", corpus)
        kind = self._schedule(model)
        drawn = _private.sampling("s_dpsgd", corpus.population.records, self.batch, self.epochs)
        records = corpus.of("private")
        before = None
        if kind == "twice":
            before = redacting("s_dpsgd", corpus, recipe, self.mask, seed)
        most = max(len(merged(record.private)) for record in records)
        delta = _private.default_delta(self.delta, drawn.population)
        method = self._method(kind, drawn, recipe, most)
        return [
            Training(
                f"s_dpsgd, {kind}",
                tuple(record.text for record in records),
                _private.noised(method, self.epsilon, self.noise_multiplier, delta, RELATION),
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
        self, kind: str, drawn: _private.Sampling, recipe: FineTuning, most: int
    ) -> _private.Released:
        """Without noise yet. most: private spans of any one record, public under the same mask."""
        noise = Noise(0.0, self.clip, self.noise)
        hidden = Noise(self.hidden_noise, self.hidden_clip, self.noise)
        rate = self.learning_rate or recipe.learning_rate
        q, steps, population = drawn.probability, drawn.steps, drawn.population
        if kind == "twice":
            return PrivateRecipe(
                noise, q, steps, population, rate, recipe.max_length, self.optimizer
            )
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

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        (only,) = trained
        return ModelRelease(only.model, self._promise(only.training.method))

    def _promise(self, method: Method) -> Guarantee:
        assert isinstance(method, PrivateRecipe | SelectiveRecipe | AlternatingRecipe)
        delta = _private.default_delta(self.delta, method.population)
        how, neighbours = _theorem(method)
        published = Mechanism((_published(method),), "add_or_remove")
        return _private.promised(
            Mechanism(method.releases, RELATION),
            population=method.population,
            unit=UNIT,
            delta=delta,
            theorem=how,
            source=self.noise,
            conditions=(neighbours, *_CONDITIONS),
            published_epsilon=moments(published, delta),
        )


def _published(method: _private.Released) -> Gaussians:
    """What the paper accounts for: one sampled gradient a batch, and no state."""
    if not isinstance(method, AlternatingRecipe):
        return method.releases[0]
    steps = max(1, round(method.epochs * method.population / method.batch))
    return Gaussians(method.noise.multiplier, steps, min(1.0, method.batch / method.population))


def _theorem(method: _private.Released) -> tuple[str, str]:
    """What the guarantee rests on, and what its neighbours are."""
    if isinstance(method, PrivateRecipe):
        return _TWICE, _SAME_SPANS
    if isinstance(method, AlternatingRecipe):
        return _PAPER, _SAME_TOKENS
    return _RESET if method.hidden == "reset" else _NOISE, _SAME_TOKENS


_SAME_SPANS = (
    "neighbours differ in marked characters only, and the same spans are marked: where secrets "
    "stand is public"
)
_SAME_TOKENS = (
    "neighbours differ in private tokens only, the same tokens are private, and there are as many: "
    "where secrets stand, how long they are, and what of a public word a private token takes with "
    "it, is public; so is the largest number of private runs in a record trained on"
)
_CONDITIONS = (
    "what the policy does not mark is trained on without any protection: such a leak is outside "
    "this guarantee",
    "private attributes of one record: those of a user's several records, or of a repeated text, "
    "add up",
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
