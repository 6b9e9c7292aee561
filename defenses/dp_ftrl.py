"""DP-FTRL (arXiv 2103.00039) by banded matrix factorization (arXiv 2306.08153): correlated noise.

As DP-SGD, but the noise of each step cancels a part of the noise before, so that the sum of all
steps, which is what the model becomes, has less of it. A user takes part in every b̂-th step at
most, where C has b̂ bands. Then the steps in which a user takes part have disjoint rows, and ε is
that of DP-SGD with ⌈T/b̂⌉ steps and q = b̂·B/N.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

from audit.accounting import Mechanism, banded
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee, default_delta
from audit.core.model import ModelFolder
from audit.core.randomness import derived_seed
from audit.core.rules import POSITIVE, PROBABILITY, at_least, one_of
from audit.core.terms import Relation, Unit
from audit.core.training import FineTuning, Training, owners
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from defenses.training import checks, noisy_sums

RELATION = Relation.ADD_OR_REMOVE
SHARE = 8  # of the users, one in so many is expected in a step: room for bands
# bands that are chosen at most: b̂ − 1 rows like all trained parameters are held; AdamW's steps
# shrink where one step has more noise, and with more bands it learnt less
MOST = {"sgd": 16, "adamw": 2}


@dataclass(frozen=True)
class DPFTRL(Defense):
    """Fine-tunes with clipped gradients of users, under noise that partly cancels.

    epsilon: target ε in nats, at δ, per user under add_or_remove; above 0, or none with
        noise_multiplier.
    delta: δ of the guarantee; default min(1/(10·N), 1e-5) for N users; between 0 and 1.
    noise_multiplier: deviation σ of a row of Z over the clipping norm, instead of a target ε;
        above 0, with epsilon=none.
    clip: norm C to which the gradient of each user is clipped; above 0.
    bands: number b̂ of bands, 1 to N/B and T; 1 is DP-SGD; default the power of two up to 16 (with
        "adamw" 2) with the least expected error of all prefix sums at the target ε, or 1 where σ is
        given.
    batch: expected batch size B; default an eighth of all users, at most 512; 1 to N.
    epochs: how often each user is read on average, in T = epochs·N/B steps; above 0.
    learning_rate: peak learning rate, falling to zero; default three times the plan's; above 0.
    optimizer: "adamw" or "sgd".
    noise: source of the noise: "seed" (reproducible) or "system" (the operating system's entropy).
    """

    epsilon: Annotated[float | None, POSITIVE] = 8.0
    delta: Annotated[float | None, PROBABILITY] = None
    noise_multiplier: Annotated[float | None, POSITIVE] = None
    clip: Annotated[float, POSITIVE] = 1.0
    bands: Annotated[int | None, at_least(1)] = None
    batch: Annotated[int | None, POSITIVE] = None
    epochs: Annotated[float, POSITIVE] = 15.0
    learning_rate: Annotated[float | None, POSITIVE] = None
    optimizer: Annotated[str, one_of("adamw", "sgd")] = "adamw"
    noise: Annotated[str, one_of("seed", "system")] = "seed"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.check_noise("dp_ftrl", self.epsilon, self.noise_multiplier)

    def trainings(
        self, corpus: Corpus, model: ModelFolder, recipe: FineTuning, seed: int
    ) -> Sequence[Training]:
        records = corpus.of("private")
        return [
            Training(
                "dp_ftrl",
                tuple(record.text for record in records),
                self._method(corpus, recipe),
                derived_seed(seed, "dp_ftrl", model.sha256, "training"),
                owners=owners(records, Unit.USER),
            )
        ]

    def _method(self, corpus: Corpus, recipe: FineTuning) -> PrivateRecipe:
        """Make the recipe from public sizes alone. Raises UsageError for too many bands."""
        users = corpus.population.users
        batch = self.batch or max(1, min(noisy_sums.BATCH, users // SHARE))
        drawn = noisy_sums.sampling("dp_ftrl", users, batch, self.epochs)
        most = min(users // batch, drawn.steps)
        if self.bands is not None and self.bands > most:
            raise UsageError(
                f"dp_ftrl: bands is {self.bands}, but {users} users in batches of {batch} and "
                f"{drawn.steps} steps allow {most}; lower bands or batch"
            )
        rate = self.learning_rate or noisy_sums.FASTER * recipe.learning_rate
        clip = Noise(0.0, self.clip, self.noise)
        plain = noisy_sums.without_noise(clip, self.optimizer, drawn, rate, recipe)
        delta = self.delta or default_delta(users)
        if self.bands is not None or self.noise_multiplier is not None:
            return self._with(plain, self.bands or 1, delta)
        return self._best(plain, min(most, MOST[self.optimizer]), delta)

    def _best(self, plain: PrivateRecipe, most: int, delta: float) -> PrivateRecipe:
        """Choose the number of bands by the expected error; some may not reach ε at all."""
        every = [self._with(plain, 1, delta)]
        for power in range(1, most.bit_length()):
            with suppress(UsageError):
                every.append(self._with(plain, 2**power, delta))
        return min(every, key=_error)

    def _with(self, plain: PrivateRecipe, bands: int, delta: float) -> PrivateRecipe:
        """Return the recipe with so many bands, and the noise that ε then takes."""
        q = min(1.0, bands * plain.sampling_probability)
        method = replace(plain, bands=banded.square_root(bands), sampling_probability=q)
        return noisy_sums.noised(method, self.epsilon, self.noise_multiplier, delta, RELATION)

    def promised(self, trainings: Sequence[Training]) -> Guarantee:
        (only,) = trainings
        method = only.method
        assert isinstance(method, PrivateRecipe)
        return noisy_sums.promised(
            Mechanism(method.releases, RELATION),
            population=method.population,
            unit=Unit.USER,
            delta=self.delta or default_delta(method.population),
            theorem=_theorem(len(method.bands)),
            source=self.noise,
            conditions=(*_correlation(method), *noisy_sums.PROTECTED[Unit.USER]),
        )


def _error(method: PrivateRecipe) -> float:
    """Return the expected error of a prefix sum, over the clipping norm."""
    return method.noise.multiplier * banded.error(method.bands, method.steps)


def _theorem(bands: int) -> str:
    """Name what ε follows from; with one band it is DP-SGD."""
    if bands == 1:
        return "DP-FTRL with one band, which is DP-SGD: Poisson-subsampled Gaussian, composed"
    return (
        "DP-FTRL by banded matrix factorization (arXiv 2306.08153): the steps of one user as that "
        "many sums with independent noise, composed"
    )


def _correlation(method: PrivateRecipe) -> tuple[str, ...]:
    """State where C and the groups come from."""
    bands = len(method.bands)
    if bands == 1:
        return ("C has one band, so the noise of every step is independent",)
    return (
        "C is the square root of the prefix sums, cut to b̂ bands and scaled; b̂ is a public "
        "constant, too",
        "the group of a user among b̂ is a keyed hash of the id alone",
    )
