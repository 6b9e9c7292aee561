"""Sums with correlated noise C⁻¹Z, where C has b̂ bands: DP-FTRL by banded matrix factorization.

Denisov et al. 2022 (arXiv 2202.08312); Choquette-Choo et al. 2023 (arXiv 2306.08153). Proof:
docs/methods/dp-ftrl.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from audit.accounting.banded import participations
from audit.accounting.gaussians import Gaussians
from audit.accounting.privacy_loss import Losses, Pair
from audit.accounting.term import Term

_ROUNDING = 1e-12  # of the norm of a column that was scaled to 1


@dataclass(frozen=True, slots=True)
class BandedSums(Term):
    """`steps` releases of a clipped sum, with noise that partly cancels.

    noise_multiplier: σ, the deviation of the rows of Z over C₀, the largest norm one record adds to
        a sum.
    count: k, the most sums that a record is in; any two of them are at least b̂ steps apart.
        ⌈T/b̂⌉ with sampling; without, a lower cap may be enforced.
    steps: T.
    column: first column of C, which is lower triangular and Toeplitz: b̂ numbers of norm at most 1.
    sampling_probability: q = b̂·B/N for an expected batch B of N units. Each unit is in one of b̂
        groups, whatever the others are; step t samples group t mod b̂ by Poisson. 1: always,
        without amplification.
    records: how many records the protected unit holds. No ε is known for several that are sampled.
    Raises ValueError for another column or count.
    """

    kind: ClassVar[str] = "banded_sums"
    noise_multiplier: float
    count: int
    steps: int
    column: tuple[float, ...]
    sampling_probability: float = 1.0
    records: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", tuple(self.column))  # of JSON it is a list
        if not (self.column and self.column[0] > 0.0 and math.isfinite(math.hypot(*self.column))):
            raise ValueError("column must begin with a number above 0 and be finite")
        if (norm := math.hypot(*self.column)) > 1.0 + _ROUNDING:
            raise ValueError(
                f"column has norm {norm:.6g}, so a sum would be moved by more than the clipping "
                "norm; scale it to 1"
            )
        most = participations(self.steps, self.bands)
        if self.count > most or (self.sampled and self.count != most):
            raise ValueError(
                f"{self.steps} steps and {self.bands} bands leave a record {most} sums; count is "
                f"{self.count}"
            )
        Gaussians.__post_init__(self.independent)

    @property
    def bands(self) -> int:
        """b̂."""
        return len(self.column)

    @property
    def independent(self) -> Gaussians:
        """As many sums with independent noise, which dominate the sums that a record is in."""
        return Gaussians(self.noise_multiplier, self.count, self.sampling_probability, self.records)

    @property
    def sampled(self) -> bool:
        """Test whether the unit may be missing from a sum of its group."""
        return self.sampling_probability < 1.0

    @property
    def inactive(self) -> bool:
        return self.independent.inactive

    @property
    def is_gaussian(self) -> bool:
        return self.independent.is_gaussian

    def mu(self, relation: str) -> float:
        return self.independent.mu(relation)

    def event(self) -> Any:
        return self.independent.event()

    def losses(self, relation: str, interval: float) -> tuple[Losses, ...]:
        return self.independent.losses(relation, interval)

    def spread(self, relation: str) -> tuple[float, float]:
        return self.independent.spread(relation)

    def pair(self, relation: str) -> Pair | None:
        return self.independent.pair(relation)

    def known_coins_moment(self, order: float) -> float:
        return self.independent.known_coins_moment(order)

    def unknown_under(self, relation: str) -> str:
        if self.sampled and self.records > 1:
            return (
                "several records of one unit are sampled in groups of their own, and their sums "
                "share noise: no curve is known for that"
            )
        return ""

    def described(self, relation: str) -> str:
        noise = f"DP-FTRL: banded noise, b̂ = {self.bands}, σ = {self.noise_multiplier:.4g}"
        if not self.sampled:
            several = f", {self.records} records each" if self.records > 1 else ""
            return (
                f"{noise}, at most {self.count} participations{several}, not sampled, "
                f"μ = {self.mu(relation):.4g}"
            )
        return (
            f"{noise}, sampled in {self.bands} groups with q = {self.sampling_probability:.4g}, "
            f"T = {self.steps}, {self.count} participations"
        )

    @property
    def condition(self) -> str:
        each = self.sampling_probability / self.bands
        sampled = (
            f"step t samples group t mod {self.bands} by Poisson with "
            f"q = {self.sampling_probability:.6g} ({each:.6g} of all units), empty batches "
            "included; a unit stays in its group when its data are replaced"
        )
        return (
            f"{self.steps} sums with noise C⁻¹Z; the rows of Z are independent, with "
            f"σ = {self.noise_multiplier:.4g}; C is lower triangular and Toeplitz, with "
            f"b̂ = {self.bands} bands and columns of norm at most 1; a unit is in at most "
            f"{self.count} sums, at least {self.bands} steps apart, and in which depends on no "
            "other unit; "
            f"{sampled if self.sampled else 'not amplified by sampling'}"
        )
