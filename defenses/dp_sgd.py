"""DP-SGD (arXiv 1607.00133): every record's, or every user's, gradient is clipped and noised.

Units are Poisson-sampled, so ε is that of the subsampled Gaussian, composed over all steps by
privacy loss distributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit.accounting import Mechanism, phrase_distribution
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.language_model import LanguageModel
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.release import ModelRelease, Release
from audit.core.training import FineTuning, Trained, Training, owners
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from defenses import _checks, _phrases, _private, _pseudo

RELATION = "add_or_remove"


@dataclass(frozen=True)
class DPSGD(Defense):
    """Fine-tunes with clipped, noised gradients of Poisson-sampled records or users.

    epsilon: target, in nats (unit: as `unit` says; relation: add_or_remove; at δ).
    delta: δ; 1/(10·N) for N records or users unless given.
    unit: who is protected as a whole, "user" or "record".
    noise_multiplier: σ, noise over clipping norm, instead of a target; with epsilon=none.
    clip: C, the norm every unit's gradient is clipped to.
    batch: B, the expected batch, q = B/N; half of all units, at most 512, unless given.
    epochs: how often a unit is read on average; T = epochs/q steps.
    learning_rate: the optimizer's, falling to zero; four times the plan's unless given, for noise
        averages out over steps.
    optimizer: "adamw" or "sgd".
    layers: which layers are trained: "all", or "top:N" for the last N blocks.
    lora: rank of LoRA adapters trained instead, merged afterwards; 0: none.
    noise: "seed", reproducible, or "system", from the operating system.
    phrases: a file of phrases, one a line, whose own ε are worked out for the auditor.
    pseudo: whether it starts from the public model tuned on pseudo-sentences (arXiv 2210.05281).
    """

    epsilon: float | None = 8.0
    delta: float | None = None
    unit: str = "user"
    noise_multiplier: float | None = None
    clip: float = 1.0
    batch: int | None = None
    epochs: float = 15.0
    learning_rate: float | None = None
    optimizer: str = "adamw"
    layers: str = "all"
    lora: int = 0
    noise: str = "seed"
    phrases: str | None = None
    pseudo: bool = False

    def __post_init__(self) -> None:
        _checks.check_noise("dp_sgd", self.epsilon, self.noise_multiplier)
        _checks.check_positive(self, "dp_sgd", "clip", "batch", "epochs", "learning_rate")
        _checks.check_choice(
            self,
            "dp_sgd",
            unit=("user", "record"),
            optimizer=("adamw", "sgd"),
            noise=("seed", "system"),
        )
        _checks.check_delta("dp_sgd", self.delta)
        if self.phrases is not None:
            _phrases.read("dp_sgd", self.phrases)
        if self.lora < 0 or (self.lora and self.layers != "all"):
            raise UsageError("dp_sgd: lora is a rank of at least 0, and goes with layers=all only")
        _checks.check_train("dp_sgd", self.layers, "layers")

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        self._check_model(model)
        size = corpus.population
        population = size.users if self.unit == "user" else size.records
        drawn = _private.sampling("dp_sgd", population, self.batch, self.epochs)
        delta = _private.default_delta(self.delta, population)
        method = PrivateRecipe(
            noise=Noise(0.0, self.clip, self.noise),
            sampling_probability=drawn.probability,
            steps=drawn.steps,
            population=drawn.population,
            learning_rate=self.learning_rate or _private.FASTER * recipe.learning_rate,
            max_length=recipe.max_length,
            optimizer=self.optimizer,
            layers=self.layers,
            lora=self.lora,
        )
        records = corpus.of("private")
        return [
            Training(
                "dp_sgd",
                tuple(record.text for record in records),
                _private.noised(method, self.epsilon, self.noise_multiplier, delta, RELATION),
                derived_seed(seed, "dp_sgd", model.sha256, "training"),
                owners=owners(records, self.unit),
                after=_pseudo.tuning("dp_sgd", corpus, model, recipe, seed)
                if self.pseudo
                else None,
            )
        ]

    def _check_model(self, model: ModelFolder) -> None:
        """Raises UsageError for layers or adapters that the model has no place for."""
        if self.lora and model.kind == "lstm":
            raise UsageError("dp_sgd: lora needs a transformer; use lora=0 for an LSTM")
        _checks.check_layers("dp_sgd", self.layers, model, "layers")

    def release(self, public: LanguageModel, trained: Sequence[Trained]) -> Release:
        (only,) = trained
        method = only.training.method
        assert isinstance(method, PrivateRecipe)
        delta = _private.default_delta(self.delta, method.population)
        promise = _private.promised(
            Mechanism(method.releases, RELATION),
            population=method.population,
            unit=self.unit,
            delta=delta,
            theorem="DP-SGD (arXiv 1607.00133): Poisson-subsampled Gaussian, composed by privacy "
            "loss distributions",
            source=self.noise,
            conditions=_UNIT[self.unit],
            phrases=self._over_phrases(only.training, method, delta),
        )
        return ModelRelease(only.model, promise)

    def _over_phrases(
        self, training: Training, method: PrivateRecipe, delta: float
    ) -> tuple[dict[str, Any], ...]:
        if self.phrases is None:
            return ()
        counts = _phrases.counts("dp_sgd", self.phrases, training.owners, training.texts)
        sigma, steps, q = method.noise.multiplier, method.steps, method.sampling_probability
        return tuple(
            _phrases.table(r, delta, phrase_distribution(sigma, steps, q, delta, counts, r))
            for r in _phrases.RELATIONS
        )


_UNIT = {
    "user": ("all records of one user are protected together; who shares them shares the loss",),
    "record": (
        "one record is protected; a user's several records, or repeats of one text, add up",
    ),
}
