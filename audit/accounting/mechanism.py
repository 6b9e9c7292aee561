"""The mechanism to account for: releases of noisy sums, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from audit.core.terms import Relation

RELATIONS = (Relation.ADD_OR_REMOVE, Relation.REPLACE)


@dataclass(frozen=True, slots=True)
class Gaussians:
    """`count` releases of a clipped sum, each with fresh noise N(0, (noise_multiplier·C)²).

    noise_multiplier: σ, the noise's standard deviation over C, the largest norm one record adds.
    count: how many releases are composed (the steps T).
    sampling_probability: Poisson q: each record takes part in each release by its own coin;
    1: always, without amplification.
    records: n, how many records the protected unit holds: all of a user, or all with a phrase.
    Each takes part by its own coin, so Bin(n, q) of them do.
    """

    noise_multiplier: float
    count: int
    sampling_probability: float = 1.0
    records: int = 1

    def __post_init__(self) -> None:
        if not 0.0 <= self.noise_multiplier < math.inf:
            raise ValueError(
                f"noise_multiplier must be finite, at least 0; got {self.noise_multiplier}"
            )
        if not 0.0 <= self.sampling_probability <= 1.0:
            raise ValueError(
                f"sampling_probability must lie in [0, 1]; got {self.sampling_probability}"
            )
        if self.count < 0 or self.records < 0:
            raise ValueError(
                f"count and records must be at least 0; got {self.count}, {self.records}"
            )

    @property
    def inactive(self) -> bool:
        """Whether nothing of the unit is in any release."""
        return self.count == 0 or self.records == 0 or self.sampling_probability == 0.0

    @property
    def sampled(self) -> bool:
        """Whether some of the unit's records may be missing from a release."""
        return self.sampling_probability < 1.0

    @property
    def mu(self) -> float:
        """μ of the single Gaussian equivalent to all releases unamplified (add-or-remove)."""
        if self.inactive:
            return 0.0
        if self.noise_multiplier == 0.0:
            return math.inf
        return self.records * math.sqrt(self.count) / self.noise_multiplier


@dataclass(frozen=True, slots=True)
class Mechanism:
    """All that ε depends on: the composed releases and the relation of neighbours.

    relation: "add_or_remove" (the unit's records are present or absent), or "replace" (they are
    exchanged: each sum moves by up to 2C a record, which is accounted for here, not by the caller).
    Sampled units of several records have no direct bound under replace: see
    `epsilon_under_replace`. Raises ValueError for them, and for any other relation.
    """

    terms: tuple[Gaussians, ...]
    relation: str

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"relation must be one of {RELATIONS}; got {self.relation!r}")
        several = any(t.sampled and t.records > 1 for t in self.terms)
        if self.relation == Relation.REPLACE and several:
            raise ValueError("a sampled unit of several records is known under add_or_remove only")

    @property
    def active(self) -> tuple[Gaussians, ...]:
        """The terms that release anything of the unit."""
        return tuple(term for term in self.terms if not term.inactive)

    @property
    def mu(self) -> float:
        """μ of the single Gaussian that dominates all releases, without amplification."""
        return math.hypot(*(self.mu_of(term) for term in self.terms))

    def mu_of(self, term: Gaussians) -> float:
        """Computes `term.mu` under this relation: replacing moves a sum twice as far."""
        return term.mu * (2.0 if self.relation == Relation.REPLACE else 1.0)


def hidden_states(noise_multiplier: float, releases: int) -> Gaussians:
    """Makes S-DPSGD's noised states: `releases` pairs of h and c, each clipped and noised alone.

    noise_multiplier: σ_h over the norm at which h, and c, is clipped. releases: the enforced cap n
    on a record's private→public transitions in all its participations, without amplification.
    Composed under "replace" they make μ² = 8n/σ_h².
    """
    return Gaussians(noise_multiplier, 2 * releases)
