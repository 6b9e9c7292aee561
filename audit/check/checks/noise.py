"""Checks of the noise, where there is nothing else: its scale, shape and independence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from audit.check.catalogue import Check
from audit.check.observed import Observed
from audit.check.outcome import Outcome, detectable, not_read, tested
from audit.statistics import white_noise

_NOTHING = "less than two steps were released"
_PAIRED = 2_000  # steps of which every pair is compared
_LEAST = 50  # entries of a tensor below which its correlations are not read


def scale(run: Observed, check: Check = Check.SCALE) -> Outcome:
    """Check that the noise's standard deviation is σC: overall, in every tensor and step."""
    pieces = _pieces(run)
    ps = [white_noise.scale_p(piece.energy, piece.mean, piece.variance) for piece in pieces]
    both = (ps[0], min(1.0, len(ps[1:]) * min(ps[1:])))  # half of the level is for the whole
    found = detectable(1.0 / (2.0 * pieces[0].mean) ** 0.5, len(both))
    outcome = tested(check, run.units.name, "", 0.0, "1", both, found)
    shown = pieces[int(np.argmin(ps))] if outcome.failed else pieces[0]
    value = float(np.sqrt(shown.energy / shown.mean))
    return replace(outcome, quantity=f"noise / σC{shown.where}", value=value)


@dataclass(frozen=True)
class _Piece:
    """A sum of squares over (σC)², with its mean and variance. where: which, in words."""

    where: str
    energy: float
    mean: float
    variance: float


def _pieces(run: Observed) -> list[_Piece]:
    """List the energy of all noise, first, and that of each tensor and of each step."""
    values, tensors = run.quiet.values / run.noise, run.quiet.tensors
    steps, width = values.shape
    squares, count = values**2, float(steps * width)
    by_tensor = [
        _Piece(f", tensor {i}", float((part**2).sum()) / run.noise**2, steps * mean, steps * var)
        for i, (part, mean, var) in enumerate(
            zip(tensors.parts, tensors.means, tensors.variances, strict=True), 1
        )
    ]
    by_step = [
        _Piece(f", step {t}", float(energy), width, 2.0 * width)
        for t, energy in enumerate(squares.sum(axis=1), 1)
    ]
    return [_Piece("", float(squares.sum()), count, 2.0 * count), *by_tensor, *by_step]


def alone(run: Observed) -> tuple[Outcome, ...]:
    """Check the scale, shape and independence of noise alone."""
    if len(run.sums) < 2:
        checks = (Check.SCALE, Check.SHAPE, Check.STEPS, Check.TENSORS)
        return tuple(not_read(check, run.units.name, _NOTHING) for check in checks)
    return scale(run), shape(run), over_steps(run), over_tensors(run)


def shape(run: Observed) -> Outcome:
    """Check that the noise is Gaussian, whatever its scale."""
    values = run.quiet.values
    fourth, by_fourth = white_noise.kurtosis(values)
    distance, by_distance = white_noise.kolmogorov_smirnov(values)
    shown = ("kurtosis", fourth, "3") if by_fourth <= by_distance else ("distance", distance, "0")
    found = detectable(float(np.sqrt(24.0 / values.size)) / 3.0, 2)
    return tested(Check.SHAPE, run.units.name, *shown, (by_fourth, by_distance), found)


def over_steps(run: Observed) -> Outcome:
    """Check that steps share no noise."""
    worst, by_pairs = white_noise.step_correlations(run.quiet.values[:_PAIRED])
    mean, by_lag = white_noise.lag_one(run.quiet.values)
    shown = worst if by_pairs <= by_lag else mean
    return tested(Check.STEPS, run.units.name, "correlation", shown, "0", (by_pairs, by_lag))


def over_tensors(run: Observed) -> Outcome:
    """Check that tensors share no noise: the same places of any two are uncorrelated."""
    tensors, noise = run.quiet.tensors, run.noise
    found = []
    for (i, j), mean in tensors.overlaps.items():
        one, other = tensors.parts[i], tensors.parts[j]
        n = min(one.shape[1], other.shape[1])
        if n >= _LEAST:
            due = mean / n
            found.append(white_noise.correlation(one[:, :n] / noise, other[:, :n] / noise, due))
    if not found:
        return not_read(Check.TENSORS, run.units.name, "there is one tensor only")
    value = min(found, key=lambda pair: pair[1])[0]
    ps = [p for _, p in found]
    return tested(Check.TENSORS, run.units.name, "correlation", value, "0", ps)


def over_runs(one: Observed, other: Observed) -> Outcome:
    """Check that runs with different seeds share no noise."""
    steps = min(len(one.sums), len(other.sums))
    first, second = (run.quiet.values[:steps] / run.noise for run in (one, other))
    value, p = white_noise.correlation(first, second)
    return tested(Check.SEEDS, one.units.name, "correlation", value, "0", (p,))


def with_batch(run: Observed, readable: bool) -> Outcome:
    """Check that the noise is as large in small batches as in large ones."""
    if not readable:
        return not_read(Check.BATCH, run.units.name, "batches cannot be read")
    energy = (run.quiet.values**2).sum(axis=1)
    value, p = white_noise.rank_correlation(energy, run.batches.sum(axis=1))
    return tested(Check.BATCH, run.units.name, "rank correlation", value, "0", (p,))
