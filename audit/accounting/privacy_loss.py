"""Privacy loss of one release: its worst-case pair of output distributions, on a grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from audit.accounting.mechanism import Gaussians
from audit.core.terms import Relation
from audit.statistics.renyi import renyi_divergence

HEADROOM = 40.0  # standard deviations beyond the unit's records: Rényi orders up to 1 + 40σ/n fit
_TAIL = 14.0  # standard deviations; Φ(-14) < 1e-44
_STEPS = 4.0  # grid points in min(σ, σ²), the narrowest feature of a mixture
_LARGEST_GRID = 5e7  # points times records


@dataclass(frozen=True)
class Pair:
    """Log masses of both distributions on one grid; sums over it are integrals to rounding error.

    The summands are analytic and vanish at both ends, where the trapezoid rule converges faster
    than any power of the step.
    """

    log_p: NDArray[np.float64]
    log_q: NDArray[np.float64]

    def divergence(self, order: float) -> float:
        """Computes the larger of D_order(P‖Q) and D_order(Q‖P), nats."""
        forth = renyi_divergence(self.log_p, self.log_q, order)
        back = renyi_divergence(self.log_q, self.log_p, order)
        return float(max(forth, back))

    def loss_width(self, log_tail: float = -60.0) -> float:
        """Computes largest minus smallest log P/Q, where either mass is above e^log_tail."""
        loss = (self.log_p - self.log_q)[(self.log_p > log_tail) | (self.log_q > log_tail)]
        return float(loss.max() - loss.min())

    def loss_variance(self) -> float:
        """Computes the variance of log P/Q under P."""
        p, loss = np.exp(self.log_p), self.log_p - self.log_q
        return float(p @ (loss - p @ loss) ** 2)


def pair_of(term: Gaussians, relation: str) -> Pair | None:
    """Computes the dominating pair of one release of `term`; None if its grid would be too large.

    add_or_remove: Σ w_k N(k, σ²) against N(0, σ²), w = Bin(n, q) (Choquette-Choo et al. 2023, arXiv
    2310.15526); replace: against Σ w_k N(-k, σ²), n = 1 (Lebeda et al. 2024, arXiv 2405.20769).
    """
    sigma, n, q = term.noise_multiplier, term.records, term.sampling_probability
    reach = n + (HEADROOM + _TAIL) * sigma
    step = min(sigma, sigma * sigma) / _STEPS
    if not 2.0 * reach / step * (n + 1) < _LARGEST_GRID:
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
    return Pair(log_masses(1.0), log_masses(-1.0) if relation == Relation.REPLACE else without)
