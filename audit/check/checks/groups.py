"""Checks of DP-FTRL: in which steps a unit is, and what a resumed training does.

All are read where everybody is in every step of their group, and where coins decide, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from audit.accounting.banded import participations
from audit.check.catalogue import Check
from audit.check.checks import noise
from audit.check.observed import Observed
from audit.check.outcome import Outcome, exact, not_read, tested
from audit.statistics import white_noise


def distance(runs: Sequence[Observed]) -> Outcome:
    """Check that no unit is in two steps less than b̂ apart."""
    bands, name = runs[0].trial.bands, runs[0].units.name
    gaps = [int(np.diff(own).min()) for run in runs for own in _steps(run) if len(own) > 1]
    least = min(gaps, default=bands)
    return exact(Check.DISTANCE, name, "steps apart", least, f"at least {bands}", least >= bands)


def groups(runs: Sequence[Observed]) -> Outcome:
    """Check that all steps of a unit are of one group: the same modulo b̂."""
    bands, name = runs[0].trial.bands, runs[0].units.name
    most = max(len({*(own % bands).tolist()}) for run in runs for own in _steps(run))
    return exact(Check.GROUPS, name, "groups of a unit", most, "1", most <= 1)


def count(runs: Sequence[Observed]) -> Outcome:
    """Check that no unit is in more than ⌈T/b̂⌉ steps."""

    def over(run: Observed) -> int:
        return _most(run) - _allowed(run)

    worst = max(runs, key=over)
    due = f"at most {_allowed(worst)}"
    return exact(Check.COUNT, worst.units.name, "steps", _most(worst), due, over(worst) <= 0)


def resumed(run: Observed) -> Outcome:
    """Check that noise and coins of a resumed training are those of one that never stopped.

    Coins are read with one band; with several everybody is in every step of their group.
    """
    if not run.steps.resumed:
        why = "the adapter resumes no training, so what it draws after a resume is unknown"
        return not_read(Check.RESUMED, run.units.name, why)
    if len(run.sums) < 2:
        return not_read(Check.RESUMED, run.units.name, "less than two steps were released")
    worst, by_pairs = white_noise.step_correlations(run.quiet.values)
    if run.trial.bands > 1:
        other = noise.scale(run, Check.RESUMED).p
        assert other is not None
    else:
        coins = np.asarray(run.batches - run.sampling_probability, dtype=np.float64)
        at = run.trial.resume_after
        alike, other = white_noise.likest(coins[:at], coins[at:])
        worst = alike if other < by_pairs else worst
    return tested(Check.RESUMED, run.units.name, "correlation", worst, "0", (by_pairs, other))


def _steps(run: Observed) -> list[NDArray[np.int64]]:
    """List the steps of each present unit."""
    return [np.flatnonzero(unit) for unit in run.batches.T]


def _most(run: Observed) -> int:
    return int((run.batches != 0).sum(axis=0).max())


def _allowed(run: Observed) -> int:
    return participations(run.trial.steps, run.trial.bands)
