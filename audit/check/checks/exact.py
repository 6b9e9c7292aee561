"""Exact checks: what each unit adds, what is released, how the parameters move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audit.check.catalogue import Check
from audit.check.observed import Observed, as_array
from audit.check.outcome import Outcome, exact, not_read
from audit.check.units import Floats

DEVIATIONS = 8.0  # of the noise: 12,000 values stay below with probability 1 − 10⁻¹¹
ULPS = 8.0  # rounding errors of one update
_IN_C, _IN_DEVIATIONS = "contribution / C", "noise deviations"


def inclusion(run: Observed) -> Outcome:
    """Check that every present unit is in every sum 0 times or once."""
    a = run.inclusion[:, run.present]
    off = np.minimum(np.abs(a), np.abs(a - 1.0))
    return _near(Check.INCLUSION, run, off, run.present)


def absent(run: Observed) -> Outcome:
    """Check that no absent unit is in any sum."""
    return _near(Check.ABSENT, run, np.abs(run.inclusion[:, ~run.present]), ~run.present)


def _near(check: Check, run: Observed, off: Floats, units: NDArray[np.bool_]) -> Outcome:
    """Compare distances (releases, units) with the noise and the engine's arithmetic error."""
    spread = run.spread[:, None] * run.deviations[units] + run.steps.tolerance / DEVIATIONS
    worst = _largest(off / spread)
    due = f"at most {DEVIATIONS:g}"
    return exact(check, run.units.name, _IN_DEVIATIONS, worst, due, worst <= DEVIATIONS)


def norms(check: Check, run: Observed) -> Outcome:
    """Check that no unit adds more than C, but for noise and rounding."""
    largest = _largest(run.contributions) / run.max_norm
    noise = DEVIATIONS * run.trial.noise_multiplier * _spread(run) * run.spread.max()
    allowed = 1.0 + run.steps.tolerance + noise
    due = f"at most {allowed:.3g}"
    return exact(check, run.units.name, _IN_C, largest, due, largest <= allowed)


def _spread(run: Observed) -> float:
    """Compute the ratio of a contribution's noise to that of one coordinate."""
    if run.units.apart:
        return 1.0
    lengths = np.linalg.norm(run.clipped, axis=1)
    return float((run.deviations * lengths).max() / run.noise)


def releases(runs: Sequence[Observed]) -> Outcome:
    """Check that every run makes T releases, of empty batches too."""
    worst = min(runs, key=lambda run: -abs(len(run.sums) - run.trial.steps))
    made, due = len(worst.sums), worst.trial.steps
    return exact(Check.RELEASES, worst.units.name, "releases", made, str(due), made == due)


def update(run: Observed) -> Outcome:
    """Check that plain SGD moves the parameters by −η·G/(qN) and nothing else."""
    weights, trial = run.steps.weights, run.trial
    if weights is None:
        return not_read(Check.UPDATE, run.units.name, "the adapter returns no parameters")
    path = as_array(weights)
    moves = np.diff(path, axis=0)
    rates = run.steps.learning_rates
    eta = np.full(len(run.sums), trial.learning_rate) if rates is None else np.asarray(rates)
    if not len(moves) == len(eta) == len(run.sums):
        why = f"{len(run.sums)} sums, {len(moves)} moves and {len(eta)} learning rates do not match"
        return not_read(Check.UPDATE, run.units.name, why)
    due = -eta[:, None] * run.sums / trial.expected_batch
    size = np.maximum(np.abs(path[1:]), np.maximum(np.abs(path[:-1]), np.abs(due)))
    unit = np.finfo(np.float32).eps * np.maximum(size, np.finfo(np.float32).tiny)
    worst = _largest(np.abs(moves - due) / unit)
    at_most = f"at most {ULPS:g}"
    return exact(Check.UPDATE, run.units.name, "rounding errors", worst, at_most, worst <= ULPS)


def infinite(run: Observed | str, units: str) -> Outcome:
    """Check that a unit with an infinite gradient adds a finite vector of norm at most C.

    run: why the engine stopped, where it did.
    """
    if isinstance(run, str):
        remark = f"the engine stops and releases nothing ({run}); that it stopped can be seen"
        return exact(Check.INFINITE, units, _IN_C, 0.0, "at most 1", True, remark)
    largest = float(np.abs(run.sums).max())
    if np.isfinite(largest):
        return norms(Check.INFINITE, run)
    return exact(Check.INFINITE, units, _IN_C, np.inf, "at most 1", False, "the sum is not finite")


def _largest(values: Floats) -> float:
    """Find the largest value; NaN where there is one, which no bound allows."""
    return float(values.max(initial=0.0))
