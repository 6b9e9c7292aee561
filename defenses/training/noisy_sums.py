"""Shared by DP-SGD, DP-FTRL and Selective-DPSGD: public sizes, σ for a target ε, the guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from audit.accounting import Mechanism, Term, calibrate, epsilon, to_table
from audit.core.corpus import Record
from audit.core.digest import sha256_of
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.terms import Unit
from audit.core.training import FineTuning
from audit.models.training.dp_sgd import Noise, PrivateRecipe
from audit.models.training.selective import SelectiveRecipe
from audit.models.training.selective_as_published import AlternatingRecipe
from defenses.training import phrases

FASTER = 3.0  # times the plan's learning rate: clipped means are small and noise averages out
MOST_STEPS = 1_000_000
BATCH = 512  # largest default for the expected batch size


@dataclass(frozen=True)
class Sampling:
    """Poisson sampling of N units, which follows from the public size N alone.

    probability: q = B/N. steps: T, so that each unit is read `epochs` times on average.
    """

    population: int
    probability: float
    steps: int


def sampling(name: str, population: int, batch: int | None, epochs: float) -> Sampling:
    """Compute q and T for an expected batch; default half the population, at most 512.

    Raises UsageError for a batch larger than the population, or for too many steps.
    """
    if batch is not None and batch > population:
        raise UsageError(
            f"{name}: batch is {batch}, but there are {population} to sample from; lower it"
        )
    expected = batch or max(1, min(BATCH, population // 2))
    q = expected / population
    if epochs / q > MOST_STEPS:
        raise UsageError(
            f"{name}: epochs={epochs:g} takes more than {MOST_STEPS:,} steps; lower it"
        )
    return Sampling(population, q, max(1, round(epochs / q)))


def capped(records: Sequence[Record], most: int, key: int) -> tuple[Record, ...]:
    """Keep at most so many records of each user: those whose places have the least keyed hash.

    Which places are kept depends on the user's own records alone, and not on their text. key: seed
    of the hash.
    """
    places: dict[str, list[int]] = {}
    for place, record in enumerate(records):
        places.setdefault(record.user, []).append(place)
    kept = set()
    for user, own in places.items():
        hashes = {place: sha256_of(f"{key}\x1f{slot}\x1f{user}") for slot, place in enumerate(own)}
        kept.update(sorted(own, key=hashes.__getitem__)[:most])
    return tuple(record for place, record in enumerate(records) if place in kept)


Released = PrivateRecipe | SelectiveRecipe | AlternatingRecipe  # methods with `releases`
Recipe = TypeVar("Recipe", bound=Released)


def without_noise(
    clip: Noise, optimizer: str, drawn: Sampling, learning_rate: float, recipe: FineTuning
) -> PrivateRecipe:
    """Make a recipe whose σ is still 0. clip: the norm, and where the noise will come from."""
    return PrivateRecipe(
        noise=clip,
        sampling_probability=drawn.probability,
        steps=drawn.steps,
        population=drawn.population,
        learning_rate=learning_rate,
        max_length=recipe.max_length,
        optimizer=optimizer,
        checkpoint_activations=recipe.checkpoint_activations,
    )


def noised(
    method: Recipe, target: float | None, given: float | None, delta: float, relation: str
) -> Recipe:
    """Set the method's σ: as given, or the least σ for which ε (nats, under `relation`, of all
    its releases) is at most the target."""
    sigma = _calibrated(target, delta, method.releases, relation) if given is None else given
    return replace(method, noise=replace(method.noise, multiplier=sigma))


@lru_cache
def _calibrated(
    target: float | None, delta: float, releases: tuple[Term, ...], relation: str
) -> float:
    """Find σ of the first release; the noise of the remaining ones is fixed."""
    assert target is not None
    return calibrate(target, delta, Mechanism(releases, relation))


def promised(
    mechanism: Mechanism,
    *,
    population: int,
    unit: str,
    delta: float,
    theorem: str,
    source: str,
    conditions: tuple[str, ...],
    published_epsilon: float | None = None,
    phrases: tuple[dict[str, Any], ...] = (),
    average: float | None = None,
) -> Guarantee:
    """State the guarantee of the noisy sums that are released.

    source: source of the noise, "seed" or "system". average: mean of ε over phrases by which the
    noise was chosen, in nats; then ε is data-dependent.
    """
    return Guarantee(
        epsilon=_epsilon(mechanism, delta),
        delta=delta,
        unit=unit,
        relation=mechanism.relation,
        release="model",
        basis="worst case" if average is None else "data-dependent",
        theorem=f"{theorem} (dp-accounting, pessimistic)",
        conditions=(
            *(term.condition for term in mechanism.terms),
            *_fixed(population, source, average),
            *conditions,
        ),
        published_epsilon=published_epsilon,
        accounting=to_table(mechanism, delta),
        population=population,
        phrases=phrases,
    )


@lru_cache
def _epsilon(mechanism: Mechanism, delta: float) -> float:
    return epsilon(mechanism, delta)


PROTECTED: dict[str, tuple[str, ...]] = {
    Unit.USER: (
        "all records of one user are protected together; a text that several users have is "
        "protected less",
    ),
    Unit.RECORD: (
        "one record is protected; the losses of a user's several records, and of repeats of one "
        "text, add up",
    ),
}
_SEED = (
    "Noise is derived from the seed stored in results.json, so the guarantee holds only against "
    "someone who does not have that file. For a real release use noise=system."
)
_SYSTEM = "noise and sampling come from SHAKE-256 under the operating system's entropy"


def _fixed(population: int, source: str, average: float | None) -> tuple[str, ...]:
    sigma = "σ, " if average is None else ""
    return (
        f"N = {population} is the public number of units, independent of all coins; the number of "
        f"steps, {sigma}the clipping norms and δ follow from it and from the settings",
        *(() if average is None else (phrases.chosen(average),)),
        _SEED if source == "seed" else _SYSTEM,
        "Gaussian noise is drawn in float64 and rounded, not on the real line; a training that "
        "stops with an error is outside the guarantee",
    )
