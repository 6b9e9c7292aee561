"""Sums with Gaussian noise, of records that each take part by a coin of their own, or always."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import logsumexp, xlog1py, xlogy

from audit.accounting.privacy_loss import Losses, Pair
from audit.accounting.term import Term
from audit.core.terms import Relation

_HEADROOM = 40.0  # standard deviations beyond the unit's records: Rényi orders up to 1 + 40σ/n fit
_TAIL = 14.0  # standard deviations; Φ(-14) < 1e-44
_STEPS = 4.0  # grid points in min(σ, σ²), the narrowest feature of a mixture
_LEAST_PROBABILITY = 1e-18  # below it the losses are no floats
_LARGEST_GRID = 5e7  # points times records


@dataclass(frozen=True, slots=True)
class Gaussians(Term):
    """`count` releases of a clipped sum, each with fresh noise N(0, (noise_multiplier·C)²).

    noise_multiplier: σ, the noise's standard deviation over C, the largest norm one record adds.
    count: how many releases are composed (the steps T).
    sampling_probability: Poisson q: each record takes part in each release by its own coin;
    1: always, without amplification.
    records: n, how many records the protected unit holds: all of a user, or all with a phrase.
    Each takes part by its own coin, so Bin(n, q) of them do.
    """

    kind: ClassVar[str] = "gaussians"
    noise_multiplier: float
    count: int
    sampling_probability: float = 1.0
    records: int = 1

    def __post_init__(self) -> None:
        if not 0.0 <= self.sampling_probability <= 1.0:
            raise ValueError(
                f"sampling_probability must lie in [0, 1]; got {self.sampling_probability}"
            )
        if 0.0 < self.sampling_probability < _LEAST_PROBABILITY:
            raise ValueError(
                f"sampling_probability must be 0 or at least {_LEAST_PROBABILITY}; got "
                f"{self.sampling_probability}"
            )
        Term.__post_init__(self)

    @property
    def inactive(self) -> bool:
        return self.count == 0 or self.records == 0 or self.sampling_probability == 0.0

    @property
    def sampled(self) -> bool:
        """Test whether some of the unit's records may be missing from a release."""
        return self.sampling_probability < 1.0

    @property
    def is_gaussian(self) -> bool:
        return not self.sampled

    def mu(self, relation: str) -> float:
        """Compute μ of all releases unamplified; replacing moves a sum twice as far."""
        if self.inactive:
            return 0.0
        if self.noise_multiplier == 0.0:
            return math.inf
        distance = 2.0 if relation == Relation.REPLACE else 1.0
        return distance * (self.records * math.sqrt(self.count) / self.noise_multiplier)

    def event(self) -> Any:
        from audit.accounting import gaussian_losses  # its library takes half a second to import

        return gaussian_losses.event(*self._numbers)

    def losses(self, relation: str, interval: float) -> tuple[Losses, ...]:
        from audit.accounting import gaussian_losses

        ways = ("REPLACE",) if relation == Relation.REPLACE else ("REMOVE", "ADD")
        return tuple(gaussian_losses.losses(*self._numbers, way, interval) for way in ways)

    @property
    def _numbers(self) -> tuple[float, float, int]:
        return self.noise_multiplier, self.sampling_probability, self.records

    def spread(self, relation: str) -> tuple[float, float]:
        pair = self.pair(relation)
        if pair is not None:
            return pair.loss_width(), pair.loss_variance()
        mu = self.mu(relation) / math.sqrt(self.count)
        return mu * mu + 20.0 * mu, mu * mu

    def pair(self, relation: str) -> Pair | None:
        """Compute the worst-case pair of one release; None if its grid would be too large.

        add_or_remove: Σ w_k N(k, σ²) against N(0, σ²), w = Bin(n, q) (Choquette-Choo et al. 2023,
        arXiv 2310.15526); replace: against Σ w_k N(-k, σ²), n = 1 (Lebeda et al. 2024, arXiv
        2405.20769).
        """
        sigma, q, n = self._numbers
        reach = n + (_HEADROOM + _TAIL) * sigma
        step = min(sigma, sigma * sigma) / _STEPS
        if not (step and 2.0 * reach / step * (n + 1) < _LARGEST_GRID):
            return None
        x = np.arange(-reach, reach + step, step)
        cell = np.log(step / (sigma * np.sqrt(2.0 * np.pi)))
        if n == 1:
            log_weights = np.array([xlog1py(1.0, -q), xlogy(1.0, q)])
        else:
            log_weights = scipy.stats.binom.logpmf(np.arange(n + 1), n, q)

        def log_masses(sign: float) -> NDArray[np.float64]:
            total = np.full(x.shape, -np.inf)
            for k, log_weight in enumerate(log_weights):
                total = np.logaddexp(total, log_weight - 0.5 * ((x - sign * k) / sigma) ** 2)
            return np.asarray(total + cell)

        without = -0.5 * (x / sigma) ** 2 + cell
        other = log_masses(-1.0) if relation == Relation.REPLACE else without
        return Pair(log_masses(1.0), other, _HEADROOM * sigma / n)

    def known_coins_moment(self, order: float) -> float:
        """Compute log E e^(α(α-1)·2K²/σ²), K of Bin(n, q).

        With K records in it, replacing them leads at most from N(K, σ²) to N(-K, σ²).
        """
        k = np.arange(self.records + 1)
        log_weights = scipy.stats.binom.logpmf(k, self.records, self.sampling_probability)
        squares = 2.0 * (k / self.noise_multiplier) ** 2
        return float(logsumexp(log_weights + order * (order - 1.0) * squares))

    def unknown_under(self, relation: str) -> str:
        if relation == Relation.REPLACE and self.sampled and self.records > 1:
            return (
                "a coin exchanges several records that are sampled one by one: no curve is known "
                "for that"
            )
        return ""

    def described(self, relation: str) -> str:
        if not self.sampled:
            return f"Gaussian noise, μ = {self.mu(relation):.4g}"
        records = f", {self.records} records each" if self.records > 1 else ""
        return (
            f"DP-SGD, σ = {self.noise_multiplier:.4g}, q = {self.sampling_probability:.4g}, "
            f"T = {self.count}{records}"
        )

    @property
    def condition(self) -> str:
        sigma = f"σ = {self.noise_multiplier:.4g}"
        if not self.sampled:
            return f"{self.count} noised releases ({sigma}), not amplified"
        return (
            f"{self.count} noised sums ({sigma}), Poisson-sampled with q = "
            f"{self.sampling_probability:.6g}, empty batches included"
        )


def hidden_states(noise_multiplier: float, releases: int) -> Gaussians:
    """Make S-DPSGD's noised states: `releases` pairs of h and c, each clipped and noised alone.

    noise_multiplier: σ_h over the norm at which h, and c, is clipped. releases: the enforced cap n
    on a record's private→public transitions in all its participations, without amplification.
    Composed under "replace" they make μ² = 8n/σ_h².
    """
    return Gaussians(noise_multiplier, 2 * releases)
