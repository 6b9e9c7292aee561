"""DP-SGD (arXiv 1607.00133): the gradient of every record, or every user, is clipped and noised.

Units are Poisson-sampled, so ε is that of the subsampled Gaussian mechanism, composed over all
steps by privacy loss distributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

from audit.accounting import Mechanism, phrase_distribution, phrase_epsilon
from audit.accounting.calibration import LARGEST, LEAST
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee, default_delta
from audit.core.layers import LAYERS
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.rules import POSITIVE, PROBABILITY, at_least, one_of
from audit.core.terms import Relation, Unit
from audit.core.training import FineTuning, Training, owners
from audit.models.training.dp_sgd import Noise, PrivateRecipe, Units
from defenses.training import checks, noisy_sums, phrases, pseudo_sentences

RELATION = Relation.ADD_OR_REMOVE


@dataclass(frozen=True)
class DPSGD(Defense):
    """Fine-tunes with clipped, noised gradients of Poisson-sampled records or users.

    epsilon: target ε in nats, at δ, per `unit` under add_or_remove; above 0, or none with
        noise_multiplier.
    delta: δ of the guarantee; default min(1/(10·N), 1e-5) for N records or users; between 0 and 1.
    unit: what is protected as a whole: "user" or "record".
    sampling: what is sampled, clipped and noised: "unit", or "record" with unit=user, where a user
        is protected by the accounting of all their records together (arXiv 2407.07737, "ELS").
    per_user: most records G that are kept of a user with sampling=record, chosen by a keyed hash;
        fixed before private data is seen; at least 1.
    noise_multiplier: noise standard deviation σ over the clipping norm, instead of a target ε;
        above 0, with epsilon=none.
    clip: norm C to which the gradient of each unit is clipped; above 0.
    batch: expected batch size B, sampled with q = B/N; default half of all units, at most 512;
        1 to N.
    epochs: how often each unit is read on average, in T = epochs/q steps; above 0.
    learning_rate: peak learning rate, falling to zero; default three times the plan's, because the
        noise averages out over steps; above 0.
    optimizer: "adamw" or "sgd".
    layers: layers to train: "all", or "top:N" for the last N blocks.
    lora: rank of LoRA adapters to train instead and merge afterwards; 0 for none; with layers=all.
    noise: source of the noise: "seed" (reproducible) or "system" (the operating system's entropy).
    phrases: file of phrases, one a line, for which ε is reported to the auditor; default none.
    phrase_epsilon: mean of ε over these phrases, in nats at δ under replace, instead of a target ε;
        σ then depends on private counts, and no claim is tested; above 0, with epsilon=none.
    pseudo: whether to start from the public model tuned on pseudo-sentences (arXiv 2210.05281).
    """

    epsilon: Annotated[float | None, POSITIVE] = 8.0
    delta: Annotated[float | None, PROBABILITY] = None
    unit: Annotated[str, one_of("user", "record")] = "user"
    sampling: Annotated[str, one_of("unit", "record")] = "unit"
    per_user: Annotated[int, at_least(1)] = 4
    noise_multiplier: Annotated[float | None, POSITIVE] = None
    clip: Annotated[float, POSITIVE] = 1.0
    batch: Annotated[int | None, POSITIVE] = None
    epochs: Annotated[float, POSITIVE] = 15.0
    learning_rate: Annotated[float | None, POSITIVE] = None
    optimizer: Annotated[str, one_of("adamw", "sgd")] = "adamw"
    layers: Annotated[str, LAYERS] = "all"
    lora: Annotated[int, at_least(0)] = 0
    noise: Annotated[str, one_of("seed", "system")] = "seed"
    phrases: str | None = None
    phrase_epsilon: Annotated[float | None, POSITIVE] = None
    pseudo: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.noise_multiplier
        checks.check_noise("dp_sgd", self.epsilon, given, average=self.phrase_epsilon)
        phrases.check("dp_sgd", self.phrases, self.phrase_epsilon)
        if self.sampling == "record" and self.unit == Unit.RECORD:
            raise UsageError("dp_sgd: with unit=record records are sampled already; drop sampling")
        if self.lora and self.layers != "all":
            raise UsageError(f"dp_sgd: lora={self.lora} trains all layers; use layers=all")

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        self._check_model(model)
        units = self._units(corpus)
        records = corpus.of("private")
        if self.sampling == "record":
            records = noisy_sums.capped(records, self.per_user, derived_seed(seed, "dp_sgd", "cap"))
        texts = tuple(record.text for record in records)
        held = owners(records, self.unit if self.sampling == "unit" else Unit.RECORD)
        method = self._method(corpus, recipe)
        delta = self.delta or default_delta(units)
        sigma = self.noise_multiplier
        if self.phrase_epsilon is not None:
            assert self.phrases is not None
            counts = tuple(sorted(phrases.counts("dp_sgd", self.phrases, held, texts)))
            steps, q = method.steps, method.sampling_probability
            sigma = _averaged(self.phrase_epsilon, counts, steps, q, delta)
        return [
            Training(
                "dp_sgd",
                texts,
                noisy_sums.noised(method, self.epsilon, sigma, delta, RELATION),
                derived_seed(seed, "dp_sgd", model.sha256, "training"),
                owners=held,
                after=pseudo_sentences.tuning("dp_sgd", corpus, model, recipe, seed)
                if self.pseudo
                else None,
            )
        ]

    def _units(self, corpus: Corpus) -> int:
        """Return the public number of protected units."""
        size = corpus.population
        return size.users if self.unit == Unit.USER else size.records

    def _method(self, corpus: Corpus, recipe: FineTuning) -> PrivateRecipe:
        """Make the recipe without its noise, from public sizes alone."""
        units, by_record = self._units(corpus), self.sampling == "record"
        examples = min(corpus.population.records, self.per_user * units) if by_record else units
        drawn = noisy_sums.sampling("dp_sgd", examples, self.batch, self.epochs)
        rate = self.learning_rate or noisy_sums.FASTER * recipe.learning_rate
        clip = Noise(0.0, self.clip, self.noise)
        return replace(
            noisy_sums.without_noise(clip, self.optimizer, drawn, rate, recipe),
            layers=self.layers,
            lora=self.lora,
            units=Units(units, self.per_user) if by_record else None,
        )

    def _check_model(self, model: ModelFolder) -> None:
        """Raise UsageError for layers or adapters that the model does not have."""
        if self.lora and model.kind == "lstm":
            raise UsageError("dp_sgd: lora needs a transformer; use lora=0 for an LSTM")
        if self.lora and model.lora is not None:
            raise UsageError(
                f"dp_sgd: lora={self.lora}, but --lora has every defense train adapters"
            )
        checks.check_layers("dp_sgd", self.layers, model, "layers")

    def promised(self, trainings: Sequence[Training]) -> Guarantee:
        (only,) = trainings
        method = only.method
        assert isinstance(method, PrivateRecipe)
        units, conditions = method.population, noisy_sums.PROTECTED[self.unit]
        if method.units is not None:
            units, conditions = method.units.number, _by_record(method.units, method.population)
        delta = self.delta or default_delta(units)
        return noisy_sums.promised(
            Mechanism(method.releases, RELATION),
            population=units,
            unit=self.unit,
            delta=delta,
            theorem="DP-SGD (arXiv 1607.00133): Poisson-subsampled Gaussian, composed by privacy "
            "loss distributions",
            source=self.noise,
            conditions=conditions,
            phrases=self._over_phrases(only, method, delta),
            average=self.phrase_epsilon,
        )

    def _over_phrases(
        self, training: Training, method: PrivateRecipe, delta: float
    ) -> tuple[dict[str, Any], ...]:
        if self.phrases is None:
            return ()
        counts = phrases.counts("dp_sgd", self.phrases, training.owners, training.texts)
        sigma, steps, q = method.noise.multiplier, method.steps, method.sampling_probability
        return tuple(
            phrases.table(r, delta, phrase_distribution(sigma, steps, q, delta, counts, r))
            for r in phrases.RELATIONS
        )


@lru_cache
def _averaged(
    average: float, counts: tuple[int, ...], steps: int, probability: float, delta: float
) -> float:
    """Find σ for which ε averages so many nats over phrases that so many units hold."""

    def epsilon_of(sigma: float, occurrences: int) -> float:
        return phrase_epsilon(sigma, steps, probability, delta, occurrences, phrases.AVERAGED)

    return phrases.noise_for("dp_sgd", average, counts, epsilon_of, (LEAST, LARGEST))


def _by_record(units: Units, records: int) -> tuple[str, ...]:
    return (
        f"records are sampled: of a user at most G = {units.examples} are kept, by a keyed hash, "
        "and ε covers all of them together, each sampled by itself (a mixture of Gaussians); G is "
        "fixed before private data is seen",
        f"{records} is the public number of records that the sums are divided by",
        "a text that several users have is protected less",
    )
