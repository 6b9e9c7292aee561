"""What DP-SGD and Selective-DPSGD share: sizes that no coin moves, σ for an ε, and the promise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from audit.accounting import Gaussians, Mechanism, calibrate, epsilon, to_table
from audit.errors import UsageError
from audit.guarantee import Guarantee

FASTER = 4.0  # times the plan's learning rate: clipped means are small, and noise averages out
MOST_STEPS = 1_000_000
BATCH = 512  # at most so many examples are expected in a batch, unless asked for


@dataclass(frozen=True)
class Sampling:
    """Poisson sampling of N units: everything follows from the public size.

    probability: q = B/N. steps: T, so that a unit is read `epochs` times on average.
    """

    population: int
    probability: float
    steps: int


def sampling(name: str, population: int, batch: int | None, epochs: float) -> Sampling:
    """q and T for an expected batch (half the population, at most 512, unless given).

    Raises UsageError for a batch larger than the population.
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


def default_delta(given: float | None, population: int) -> float:
    """δ: as given, or 1/(10·N)."""
    return 1 / (10 * population) if given is None else given


@lru_cache
def noise_for(
    target: float | None,
    given: float | None,
    delta: float,
    drawn: Sampling,
    relation: str,
    beside: tuple[Gaussians, ...] = (),
) -> float:
    """σ: as given, or the least that keeps ε (nats, under `relation`) at or below the target.

    beside: other releases that the same ε pays for.
    """
    if given is not None:
        return given
    assert target is not None
    return calibrate(target, delta, drawn.probability, drawn.steps, relation, beside)


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
) -> Guarantee:
    """The guarantee of the noisy sums that were really released.

    source: where the noise came from, "seed" or "system".
    """
    return Guarantee(
        epsilon=_epsilon(mechanism, delta),
        delta=delta,
        unit=unit,
        relation=mechanism.relation,
        release="model",
        basis="worst case",
        theorem=f"{theorem} (dp-accounting, pessimistic)",
        conditions=(*map(_sampled, mechanism.terms), *_fixed(population, source), *conditions),
        published_epsilon=published_epsilon,
        accounting=to_table(mechanism, delta),
        population=population,
        phrases=phrases,
    )


@lru_cache
def _epsilon(mechanism: Mechanism, delta: float) -> float:
    return epsilon(mechanism, delta)


def _sampled(term: Gaussians) -> str:
    if not term.sampled:
        return f"{term.count} noised releases (σ = {term.noise_multiplier:.4g}), none amplified"
    return (
        f"{term.count} noised sums (σ = {term.noise_multiplier:.4g}), Poisson-sampled with q = "
        f"{term.sampling_probability:.6g}, empty batches included"
    )


_SEED = (
    "noise and sampling follow from the run's seed, which results.json holds: against those who "
    "have neither; release a model trained with noise=system"
)
_SYSTEM = "noise and sampling come from the operating system"


def _fixed(population: int, source: str) -> tuple[str, ...]:
    return (
        f"N = {population} is the public size, before any coin; the number of steps, σ, the "
        "clipping norms and δ follow from it and from the settings",
        _SEED if source == "seed" else _SYSTEM,
        "Gaussian noise is drawn in float64 and rounded, not on the real line; a training that "
        "stops with an error is outside the guarantee",
    )


def refused(name: str, given: object, key: str, rule: str) -> UsageError:
    """A parameter out of range, in one line."""
    return UsageError(f"{name}: {key} is {given}; it must be {rule}")


def check_noise(name: str, epsilon: float | None, noise_multiplier: float | None) -> None:
    """Exactly one of ε and σ is given. Raises UsageError."""
    if epsilon is not None and noise_multiplier is not None:
        raise UsageError(
            f"{name}: with noise_multiplier={noise_multiplier:g} ε follows from the noise; "
            "write epsilon=none beside it"
        )
    if epsilon is None and noise_multiplier is None:
        raise UsageError(f"{name}: epsilon is none; give noise_multiplier instead")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise refused(name, epsilon, "epsilon", "above 0 and finite")
    if noise_multiplier is not None and not 0 < noise_multiplier < math.inf:
        raise refused(name, noise_multiplier, "noise_multiplier", "above 0 and finite")


def check_positive(defense: object, name: str, *keys: str) -> None:
    """Raises UsageError unless each of these fields is None or above 0 and finite."""
    for key in keys:
        value = getattr(defense, key)
        if value is not None and not 0 < value < math.inf:
            raise refused(name, value, key, "above 0 and finite")


def check_delta(name: str, delta: float | None) -> None:
    """Raises UsageError unless δ is None or between 0 and 1, both excluded."""
    if delta is not None and not 0 < delta < 1:
        raise refused(name, delta, "delta", "above 0 and below 1")


def check_choice(defense: object, name: str, **choices: tuple[str, ...]) -> None:
    """Raises UsageError unless each of these fields has one of its values."""
    for key, allowed in choices.items():
        if getattr(defense, key) not in allowed:
            raise refused(name, getattr(defense, key), key, " or ".join(allowed))
