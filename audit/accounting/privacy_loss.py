"""Privacy loss of one release, in the two forms from which ε is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from audit.statistics.renyi import renyi_divergence


class Losses(NamedTuple):
    """Probabilities of the privacy losses (low, low + 1, …)·interval, and of an infinite one."""

    low: int
    masses: NDArray[np.float64]
    endless: float


@dataclass(frozen=True)
class Pair:
    """Log masses of both distributions on one grid; sums over it are integrals to rounding error.

    The summands are analytic and vanish at both ends, where the trapezoid rule converges faster
    than any power of the step. reach: Rényi orders up to 1 + reach have their mass on the grid.
    """

    log_p: NDArray[np.float64]
    log_q: NDArray[np.float64]
    reach: float

    def divergence(self, order: float) -> float:
        """Compute the larger of D_order(P‖Q) and D_order(Q‖P), nats."""
        forth = renyi_divergence(self.log_p, self.log_q, order)
        back = renyi_divergence(self.log_q, self.log_p, order)
        return float(max(forth, back))

    def loss_width(self, log_tail: float = -60.0) -> float:
        """Compute largest minus smallest log P/Q, where either mass is above e^log_tail."""
        loss = (self.log_p - self.log_q)[(self.log_p > log_tail) | (self.log_q > log_tail)]
        return float(loss.max() - loss.min())

    def loss_variance(self) -> float:
        """Compute the variance of log P/Q under P."""
        p, loss = np.exp(self.log_p), self.log_p - self.log_q
        return float(p @ (loss - p @ loss) ** 2)
