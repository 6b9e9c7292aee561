"""Runs whose sums are made by hand, so that the answer of every check is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from audit.check.dirac import separate
from audit.check.engine import Steps, Trial
from audit.check.observed import Observed
from audit.check.units import Floats, Units
from audit.core.terms import Unit

C, QUIET = 1.5, 0.005


def run_of(
    sums: Floats,
    units: Units,
    noise_multiplier: float = QUIET,
    q: float = 0.5,
    present: Any = None,
    max_norm: float = C,
    **steps: Any,
) -> Observed:
    """The run in which an engine released these sums."""
    everybody = np.ones(len(units), dtype=bool)
    trial = Trial(
        model=units.model(),
        records=units.records,
        unit=Unit.RECORD,
        max_norm=max_norm,
        noise_multiplier=noise_multiplier,
        sampling_probability=q,
        steps=len(sums),
        seed=0,
        physical_batch=4,
    )
    there = everybody if present is None else np.asarray(present)
    return Observed(units, there, trial, Steps(torch.tensor(sums), **steps))


def clear(counts: Any, units: Units | None = None, **more: Any) -> Observed:
    """A run without any noise: counts (T, m), how often each unit is in each sum."""
    counts = np.asarray(counts, dtype=float)
    made = units or separate([10.0 * C] * counts.shape[1])
    return run_of(counts @ made.clipped(C), made, **more)


def noise_of(values: Floats, **more: Any) -> Observed:
    """A run without any unit: values (T, 512), in units of σC, with σ = 1."""
    return run_of(values * C, separate([10.0 * C]), noise_multiplier=1.0, **more)
