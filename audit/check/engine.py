"""An engine under examination: what it is asked to train, and what it hands its optimizer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from audit.core.terms import Unit


@dataclass(frozen=True)
class Trial:
    """One training that an engine is asked for.

    model: fresh, on the CPU; `model(records)` gives the loss of each record, (n,). All of its
        parameters are trained.
    records: (N, r, …), the r records of each of N units. Some have a gradient of zero: they stand
        for absent units, so that N is public and fixed. Under `unit=record`, r is 1.
    unit: what is sampled and clipped as one: "record", or "user", all r records together.
    max_norm: C. noise_multiplier: σ, the noise's standard deviation over C.
    sampling_probability: q, each unit's own in each step. steps: T.
    seed: of all randomness. physical_batch: records that may be in memory at once.
    learning_rate: of plain SGD; 0 in most trials.
    column: first column of C, b̂ numbers; one for DP-SGD. With more, the noise of the sums is C⁻¹Z,
        where rows of Z have the deviation σC, and each step samples one of b̂ groups (see `Claim`).
    resume_after: steps after which the training is to be saved, stopped and resumed; 0: never.
    """

    model: nn.Module
    records: Tensor
    unit: Unit
    max_norm: float
    noise_multiplier: float
    sampling_probability: float
    steps: int
    seed: int
    physical_batch: int
    learning_rate: float = 0.0
    column: tuple[float, ...] = (1.0,)
    resume_after: int = 0

    @property
    def bands(self) -> int:
        """b̂."""
        return len(self.column)

    @property
    def population(self) -> int:
        """N, the public number of units."""
        return len(self.records)

    @property
    def expected_batch(self) -> float:
        """qN/b̂, by which the noisy sum is divided."""
        return self.sampling_probability * self.population / self.bands


@dataclass(frozen=True)
class Steps:
    """The tensors that the engine handed its optimizer in each step.

    sums: (T, D), its gradient times the expected batch size: Σ_i clip(g_i) + N(0, σ²C²) is due,
        with several bands Σ_i clip(g_i) and a row of C⁻¹Z. D counts the entries of all parameters,
        in the order of `model.parameters()`.
    sampling_probability: the q that was realised, where the engine rounds it; None: as asked.
    weights: (T + 1, D), the parameters before the first step and after each; None: not recorded.
    learning_rates: (T,), where they follow a public schedule; None: the trial's.
    tolerance: relative error of the engine's arithmetic; 0.01 for bfloat16.
    included: (T, N), whether each unit of `Trial.records` was sampled, where the engine tells: its
        sampling can then be checked though its clipping is another.
    resumed: whether it was resumed as `Trial.resume_after` asks.
    """

    sums: Tensor | NDArray[Any]
    sampling_probability: float | None = None
    weights: Tensor | NDArray[Any] | None = None
    learning_rates: Sequence[float] | None = None
    tolerance: float = 1e-5
    included: Tensor | NDArray[Any] | None = None
    resumed: bool = False


class Engine(ABC):
    """An engine of DP-SGD or DP-FTRL behind an adapter of a few lines."""

    @abstractmethod
    def run(self, trial: Trial) -> Steps:
        """Train as the trial says. Whatever it raises is shown to the user."""


@dataclass(frozen=True)
class Adapter(Engine):
    """Makes an engine of a function; the function may return the sums alone."""

    function: Callable[[Trial], Steps | Tensor | NDArray[Any]]

    def run(self, trial: Trial) -> Steps:
        done = self.function(trial)
        return done if isinstance(done, Steps) else Steps(done)


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """Copy tensors into one row, (D,), on the CPU."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors]).cpu()
