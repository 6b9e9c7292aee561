"""The noise that ends at a wanted ε."""

from __future__ import annotations

import math
from collections.abc import Callable

from audit.accounting.composition import TOLERANCE, ceiling
from audit.accounting.composition import epsilon as epsilon_of
from audit.accounting.mechanism import Gaussians, Mechanism
from audit.core.errors import UsageError

LARGEST, _LEAST = 1e4, 2e-2  # noise multipliers
_NEAR, _CLOSE = (5e-2, 1e-2), (5e-4, 1e-3)  # of ε, of the noise multiplier
_FLATTEST = -1e-3


def calibrate(
    epsilon: float,
    delta: float,
    sampling_probability: float,
    count: int,
    relation: str,
    others: tuple[Gaussians, ...] = (),
    records: int = 1,
) -> float:
    """The smallest noise multiplier, from 0.02 on, with which ε(δ) <= epsilon, to a thousandth.

    epsilon: target in nats, under `relation`; others: released along, their noise fixed;
    records: how many the protected unit holds (`Gaussians`). On the safe side:
    `audit.accounting.epsilon` of the mechanism so made is at most the target. Raises UsageError
    where no noise multiplier up to 10,000 reaches it.
    """

    def mechanism(noise_multiplier: float) -> Mechanism:
        term = Gaussians(noise_multiplier, count, sampling_probability, records)
        return Mechanism((term, *others), relation)

    def over(reached: float) -> float:
        return math.log(max(reached, 1e-12 * epsilon) / epsilon)

    def roughly(noise_multiplier: float) -> float:
        return over(ceiling(mechanism(noise_multiplier), math.log(delta)))

    def within(tolerance: float) -> Callable[[float], float]:
        nats = max(TOLERANCE, tolerance * min(1.0, epsilon))  # more never makes ε any smaller
        return lambda noise_multiplier: over(epsilon_of(mechanism(noise_multiplier), delta, nats))

    _check(epsilon, delta)
    if roughly(LARGEST) > 0.0 and (best := epsilon_of(mechanism(LARGEST), delta)) > epsilon:
        raise UsageError(
            f"epsilon={epsilon:g} at delta={delta:g} cannot be reached: even a noise multiplier of "
            f"{LARGEST:g} gives {best:.4g}; ask for more, or for fewer steps or other releases"
        )
    found, slope = _smallest(roughly, 1.0, -2.0, _NEAR[1])
    for tolerance, width in (_NEAR, _CLOSE):
        found, slope = _smallest(within(tolerance), found, slope, width)
    return found


def _check(epsilon: float, delta: float) -> None:
    if not 0.0 < epsilon < math.inf:
        raise UsageError(
            f"epsilon={epsilon:g}: no noise reaches it; a target above 0 and finite can be reached"
        )
    if not 0.0 < delta < 1.0:
        raise UsageError(
            f"delta={delta:g}: Gaussian noise has a finite epsilon for 0 < delta < 1 only; "
            "1/(10·records) is usual"
        )


def _smallest(
    over: Callable[[float], float], start: float, slope: float, width: float
) -> tuple[float, float]:
    """The smallest noise multiplier that is met, to about `width` of itself, and the slope there.

    over: log(ε/target), falling, met where it is at most 0; taken to be linear in log σ, of this
    slope at first, and looked at just beyond its zero, on the side that is met.
    """
    low, high, here, at_here = _LEAST, LARGEST, start, over(start)
    while high > low * (1.0 + width):
        low, high = (here, high) if at_here > 0.0 else (low, here)
        step = min(1.0, max(-1.0, -at_here / slope))
        if -width <= step <= 0.0:
            break
        there = here * math.exp(step + width / 2.0)
        if not low < there < high:
            there = math.sqrt(low * high)
        at_there, apart = over(there), math.log(there / here)
        if abs(apart) > 2.0 * width:  # else what `over` is uncertain by is too much of it
            slope = min(_FLATTEST, (at_there - at_here) / apart)
        here, at_here = there, at_there
    return high, slope
