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
from dataclasses import dataclass, replace

from audit.accounting import Gaussians, Mechanism, moments
from audit.corpus import Corpus
from audit.defense import Defense, Trained, Training, owners
from audit.errors import UsageError
from audit.guarantee import Guarantee
from audit.language_model import LanguageModel
from audit.models.alternating_training import AlternatingRecipe
from audit.models.fine_tuning import Recipe
from audit.models.loading import ModelFolder
from audit.models.method import Method
from audit.models.private_training import Noise, PrivateRecipe
from audit.models.selective_training import SelectiveRecipe
from audit.policies import merged
from audit.release import ModelRelease, Release
from audit.streams import derived_seed
from defenses import _private
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
        _private.check_noise("s_dpsgd", self.epsilon, self.noise_multiplier)
        positive = ("clip", "batch", "epochs", "learning_rate", "hidden_noise", "hidden_clip")
        _private.check_positive(self, "s_dpsgd", *positive, "transitions")
        _private.check_delta("s_dpsgd", self.delta)
        _private.check_choice(
            self,
            "s_dpsgd",
            schedule=("auto", "twice", "independent", "paper"),
            optimizer=("adamw", "sgd"),
            hidden=("reset", "noise"),
            noise=("seed", "system"),
        )
        if not self.mask.strip():
            raise UsageError("s_dpsgd: mask is empty; give a word or sign, such as mask=_")

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: Recipe, seed: int
    ) -> Sequence[Training]:
        check_marks("s_dpsgd", corpus)
        kind = self._schedule(model)
        drawn = _private.sampling("s_dpsgd", corpus.population.records, self.batch, self.epochs)
        records = corpus.of("private")
        before = None
        if kind == "twice":
            before = redacting("s_dpsgd", corpus, recipe, self.mask, seed)
        most = max(len(merged(record.private)) for record in records)
        return [
            Training(
                f"s_dpsgd, {kind}",
                tuple(record.text for record in records),
                self._method(kind, drawn, recipe, most),
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

    def _method(self, kind: str, drawn: _private.Sampling, recipe: Recipe, most: int) -> Method:
        """most: private spans of any one record, a public number under the same mask."""
        delta = _private.default_delta(self.delta, drawn.population)
        hidden = Noise(self.hidden_noise, self.hidden_clip, self.noise)
        if kind == "paper":
            return self._as_published(drawn, recipe, hidden, most, delta)
        states = 2 * recipe.epochs * self.transitions if self.hidden == "noise" else 0
        extra = (Gaussians(self.hidden_noise, states),) if kind == "independent" and states else ()
        sigma = _private.noise_for(
            self.epsilon, self.noise_multiplier, delta, drawn, RELATION, extra
        )
        noise = Noise(sigma, self.clip, self.noise)
        q, steps, population = drawn.probability, drawn.steps, drawn.population
        if kind == "twice":
            rate = self.learning_rate or recipe.learning_rate
            return PrivateRecipe(
                noise, q, steps, population, rate, recipe.max_length, self.optimizer
            )
        return SelectiveRecipe(
            noise=noise,
            sampling_probability=q,
            steps=steps,
            population=population,
            learning_rate=self.learning_rate or recipe.learning_rate,
            optimizer=self.optimizer,
            public=recipe,
            hidden=self.hidden,
            hidden_noise=hidden,
            transitions=self.transitions,
        )

    def _as_published(
        self, drawn: _private.Sampling, recipe: Recipe, hidden: Noise, most: int, delta: float
    ) -> AlternatingRecipe:
        """Every private run of every epoch releases a gradient, and h and c after it."""
        epochs = max(1, round(self.epochs))
        states = Gaussians(self.hidden_noise, 2 * epochs * most)
        sigma = _private.noise_for(
            self.epsilon,
            self.noise_multiplier,
            delta,
            replace(drawn, probability=1.0, steps=epochs * most),
            RELATION,
            (states,),
        )
        return AlternatingRecipe(
            noise=Noise(sigma, self.clip, self.noise),
            hidden_noise=hidden,
            batch=max(1, round(drawn.probability * drawn.population)),
            epochs=epochs,
            private_runs=most,
            population=drawn.population,
            learning_rate=self.learning_rate or recipe.learning_rate,
            public_learning_rate=recipe.learning_rate,
            optimizer=self.optimizer,
            max_length=recipe.max_length,
        )

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        (only,) = trained
        return ModelRelease(only.model, self._promise(only.training.method))

    def _promise(self, method: Method) -> Guarantee:
        if isinstance(method, AlternatingRecipe):
            gradients, how = method.private_runs * method.epochs, _PAPER
            terms = [Gaussians(method.noise.multiplier, gradients)]
            terms += [Gaussians(method.hidden_noise.multiplier, 2 * gradients)]
            published = Gaussians(
                method.noise.multiplier,
                max(1, round(method.epochs * method.population / method.batch)),
                min(1.0, method.batch / method.population),
            )
        else:
            assert isinstance(method, PrivateRecipe | SelectiveRecipe)
            published = Gaussians(
                method.noise.multiplier, method.steps, method.sampling_probability
            )
            terms, how = [published], _TWICE
            if isinstance(method, SelectiveRecipe):
                how = _RESET if method.hidden == "reset" else _NOISE
                states = 2 * method.public.epochs * method.transitions
                if method.hidden == "noise":
                    terms.append(Gaussians(method.hidden_noise.multiplier, states))
        delta = _private.default_delta(self.delta, method.population)
        return _private.promised(
            Mechanism(tuple(terms), RELATION),
            population=method.population,
            unit=UNIT,
            delta=delta,
            theorem=how,
            source=self.noise,
            conditions=(_MASK[how is _TWICE], *_CONDITIONS),
            published_epsilon=moments(Mechanism((published,), "add_or_remove"), delta),
        )


_MASK = {
    True: "neighbours differ in marked characters only, and the same spans are marked: where "
    "secrets stand is public",
    False: "neighbours differ in private tokens only, the same tokens are private, and there are "
    "as many: where secrets stand, how long they are, and what of a public word a private token "
    "takes with it, is public; so is the largest number of private runs in a record trained on",
}
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
