"""Checks of the sampling, on the run whose batches can be read.

With b̂ bands b̂ consecutive steps make a round, in which every unit has one coin.
"""

from __future__ import annotations

import math

import numpy as np

from audit.check.catalogue import Check
from audit.check.observed import Observed
from audit.check.outcome import Outcome, detectable, not_read, tested
from audit.statistics import white_noise
from audit.statistics.poisson_sampling import above_p, dispersion, lag_one_p, rate_p

_UNREAD = "contributions are not 0 or 1, or not in one group, so batches cannot be read"


def rate(run: Observed, readable: bool) -> Outcome:
    """Check that the number of inclusions is Bin(T·m, q); with b̂ bands, of T·m/b̂."""
    if not readable:
        return not_read(Check.RATE, run.units.name, _UNREAD)
    batches, q = run.rounds, run.sampling_probability
    p = rate_p(int(batches.sum()), batches.size, q)
    share = float(batches.mean())
    found = detectable(math.sqrt((1.0 - q) / (q * batches.size)))
    return tested(Check.RATE, run.units.name, "share sampled", share, f"{q:.4g}", (p,), found)


def over_runs(one: Observed, other: Observed) -> Outcome:
    """Check that runs with different seeds sample by different coins."""
    q = one.sampling_probability
    if q == 1.0:
        return not_read(Check.COINS, one.units.name, "every unit is in every batch")
    steps, deviation = min(len(one.rounds), len(other.rounds)), math.sqrt(q * (1.0 - q))
    coins = [np.asarray((run.rounds[:steps] > 0) - q, dtype=np.float64) for run in (one, other)]
    value, p = white_noise.correlation(coins[0] / deviation, coins[1] / deviation)
    return tested(Check.COINS, one.units.name, "correlation", value, "0", (p,))


def poisson(run: Observed, readable: bool) -> Outcome:
    """Check that batch sizes, and each unit's inclusions, scatter as independent coins do."""
    if not readable:
        return not_read(Check.SAMPLING, run.units.name, _UNREAD)
    batches, q = run.rounds, run.sampling_probability
    steps, units = batches.shape
    sizes = batches.sum(axis=1)
    index, by_step = dispersion(sizes, units, q)
    _, by_unit = dispersion(batches.sum(axis=0), steps, q)
    ps = (by_step, by_unit, above_p(sizes, units, q), lag_one_p(batches, q))
    found = detectable(math.sqrt(2.0 / steps), len(ps))
    return tested(Check.SAMPLING, run.units.name, "variance / due", index, "1", ps, found)
