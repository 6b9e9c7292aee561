"""One run of an engine, and what is read off its noisy sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audit.accounting import banded
from audit.check.engine import Engine, Steps, Trial
from audit.check.quiet import Quiet, complement, coordinates
from audit.check.units import Floats, Units
from audit.core.errors import UsageError, first_line


@dataclass(frozen=True)
class Observed:
    """A run and its data. present: (m,), whether each unit is in the training data."""

    units: Units
    present: NDArray[np.bool_]
    trial: Trial
    steps: Steps

    @property
    def max_norm(self) -> float:
        return self.trial.max_norm

    @property
    def noise(self) -> float:
        """σC, the standard deviation that the noise should have; with several bands, that of Z."""
        return self.trial.noise_multiplier * self.trial.max_norm

    @property
    def sampling_probability(self) -> float:
        """The q that the engine realised."""
        realised = self.steps.sampling_probability
        return self.trial.sampling_probability if realised is None else realised

    @cached_property
    def sums(self) -> Floats:
        """(releases, D)."""
        return as_array(self.steps.sums)

    @property
    def white(self) -> Floats:
        """(releases, D), C times the sums: their noise is Z, independent in every step."""
        return banded.times(self.trial.column, self.sums)

    @cached_property
    def spread(self) -> Floats:
        """(releases,), the deviation of a row of C⁻¹Z over that of Z; 1 with one band."""
        inverse = banded.inverse(self.trial.column, len(self.sums))
        return np.asarray(np.sqrt(np.cumsum(inverse**2)))

    @cached_property
    def clipped(self) -> Floats:
        """V, (m, D): what each unit should add where it is sampled."""
        return self.units.clipped(self.max_norm)

    @cached_property
    def inclusion(self) -> Floats:
        """(releases, m), a = (VVᵀ)⁻¹VG: how often each unit's clipped gradient is in each sum."""
        return np.asarray(self.sums @ self.clipped.T @ self._inverse)

    @cached_property
    def deviations(self) -> Floats:
        """(m,), the standard deviations of the noise in `inclusion`, over `spread`."""
        return np.asarray(self.noise * np.sqrt(np.diag(self._inverse)))

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self.clipped @ self.clipped.T), dtype=np.float64)

    @cached_property
    def batches(self) -> NDArray[np.int64]:
        """(releases, present units): what the engine reports, else `inclusion` rounded.

        The latter is to be read where the noise is small.
        """
        included = self.steps.included
        if included is None:
            return np.rint(self.inclusion[:, self.present]).astype(np.int64)
        first = as_array(included)[:, : self.present.sum()]  # the population begins with them
        return np.asarray(first).astype(np.int64)

    @cached_property
    def rounds(self) -> NDArray[np.int64]:
        """(releases/b̂, present units): how often each unit is sampled in b̂ consecutive steps.

        In one of these steps it may be. With one band it is `batches`.
        """
        bands, whole = self.trial.bands, len(self.batches) // self.trial.bands
        shape = whole, bands, self.batches.shape[1]
        return np.asarray(self.batches[: whole * bands].reshape(shape).sum(axis=1))

    @cached_property
    def contributions(self) -> Floats:
        """(releases, m), the norm of what each unit added to each sum, noise included."""
        if self.units.apart:
            used = (self.units.gradients != 0).astype(float)
            return np.asarray(np.sqrt(self.sums**2 @ used.T))
        return np.asarray(np.abs(self.inclusion) * np.linalg.norm(self.clipped, axis=1))

    @cached_property
    def quiet(self) -> Quiet:
        part = coordinates if self.units.apart else complement
        return part(self.white, self.units.gradients, self.units.sizes)


def as_array(values: Tensor | NDArray[Any]) -> Floats:
    """Copy what an adapter returned into float64."""
    return torch.as_tensor(values).detach().double().cpu().numpy()


class EngineStoppedError(Exception):
    """An engine raised an error in a run. why: which, in a few words."""

    def __init__(self, units: str, why: str) -> None:
        super().__init__(f"the engine stopped on {units} ({why}); mend its adapter")
        self.why = why


def observe(
    engine: Engine, units: Units, present: NDArray[np.bool_], trial: Trial, finite: bool
) -> Observed:
    """Run the engine.

    finite: whether its sums have to be. Raises EngineStoppedError where it raises an error or
    releases nothing; UsageError where its sums are not as asked.
    """
    try:
        steps = engine.run(trial)
    except Exception as error:  # an engine may raise anything
        raise EngineStoppedError(
            units.name, f"{type(error).__name__}: {first_line(error)}"
        ) from error
    shape, width = tuple(steps.sums.shape), sum(units.sizes)
    if len(shape) != 2 or shape[1] != width:
        raise UsageError(
            f"the adapter returned sums of shape {shape}; ({trial.steps}, {width}) is due: one row "
            "for each step, one column for each entry of model.parameters()"
        )
    included, due = steps.included, (len(steps.sums), trial.population)
    if included is not None and tuple(included.shape) != due:
        raise UsageError(
            f"the adapter returned `included` of shape {tuple(included.shape)}, not {due}"
        )
    if not len(steps.sums):
        raise EngineStoppedError(units.name, "no step released anything")
    run = Observed(units, present, trial, steps)
    if finite and not np.isfinite(run.sums).all():
        raise UsageError("the adapter returned sums that are not finite, of finite gradients")
    return run
