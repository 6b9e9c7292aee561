"""Laws: the distribution of what a service releases for each query, for its auditor only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from audit.core.predictor import Tokens


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise on every probability; lower values are then raised to a floor, and the result
    is divided by its sum.

    scale: scale of the noise, in units of probability. floor: above 0, in the same units.
    """

    scale: float
    floor: float


@dataclass(frozen=True)
class Law:
    """The law of the answers to n queries.

    log_pmfs: shape (n, V), nats: of the token that is released; with noise, of the distribution
        that is released once the noise is added.
    noise: None where one token is released.
    """

    log_pmfs: np.ndarray
    noise: LaplaceNoise | None = None

    def first(self, n: int) -> Law:
        """Return the law of the first n answers."""
        return Law(self.log_pmfs[:n], self.noise)


@runtime_checkable
class Lawful(Protocol):
    """A session that states the law of its answers to its auditor."""

    def laws(self, prefixes: Sequence[Tokens], continuations: Sequence[Tokens]) -> Law:
        """Return the law of the answer at each token of the continuations, which are queries as in
        `Predictor.score`; only of those that are answered before STOP."""
