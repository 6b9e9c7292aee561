"""The noise that ends at a wanted ε."""

from __future__ import annotations

import math
from collections.abc import Callable

from audit.accounting.composition import ceiling
from audit.accounting.composition import epsilon as epsilon_of
from audit.accounting.mechanism import Gaussians, Mechanism
from audit.errors import UsageError

LARGEST, _LEAST = 1e4, 1e-6  # noise multipliers
_TOLERANCE = 5e-4  # of ε, while searching
_WIDTH = 5e-4  # of the noise multiplier


def calibrate(
    epsilon: float,
    delta: float,
    sampling_probability: float,
    count: int,
    relation: str,
    others: tuple[Gaussians, ...] = (),
    records: int = 1,
) -> float:
    """The smallest noise multiplier of `count` releases with ε(δ) <= epsilon, to a thousandth.

    epsilon: target in nats, under `relation`; others: releases composed along, noise fixed;
    records: how many the protected unit holds (`Gaussians`). On the safe side:
    `audit.accounting.epsilon` of the mechanism so made is at most the target. Raises UsageError
    where no noise multiplier up to 10,000 reaches it.
    """

    def mechanism(noise_multiplier: float) -> Mechanism:
        term = Gaussians(noise_multiplier, count, sampling_probability, records)
        return Mechanism((term, *others), relation)

    def over(reached: float) -> float:
        return math.log(max(reached, 1e-12 * epsilon) / epsilon)

    def roughly_over(noise_multiplier: float) -> float:
        return over(ceiling(mechanism(noise_multiplier), math.log(delta)))

    def closely_over(noise_multiplier: float) -> float:
        tolerance = _TOLERANCE * min(1.0, epsilon)
        return over(epsilon_of(mechanism(noise_multiplier), delta, tolerance))

    _check(epsilon, delta)
    best = epsilon_of(mechanism(LARGEST), delta)
    if best > epsilon:
        raise UsageError(
            f"epsilon={epsilon:g} at delta={delta:g} cannot be reached: even a noise multiplier of "
            f"{LARGEST:g} gives {best:.4g}; ask for more, or for fewer steps or other releases"
        )
    found = _smallest(closely_over, _smallest(roughly_over, 1.0, 2.0), 1.1)
    while epsilon_of(mechanism(found), delta) > epsilon:
        found *= 1.0 + _WIDTH
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


def _smallest(over: Callable[[float], float], start: float, factor: float) -> float:
    """The smallest noise multiplier that is met, within _WIDTH of itself; the met end.

    over: log(ε/target), falling, met where it is at most 0; taken to be linear in the logarithm
    between a met and an unmet end, and looked at just beyond its zero, to close in from both sides.
    """
    low = high = start
    at_low = at_high = over(start)
    while at_high > 0.0 and high < LARGEST:
        low, at_low, high = high, at_high, min(LARGEST, high * factor)
        at_high, factor = over(high), factor**1.5
    while at_low <= 0.0 and low > _LEAST:
        low, high, at_high = low / factor, low, at_low
        at_low, factor = over(low), factor**1.5
    beyond = 1.0  # thirds of _WIDTH; above 0: on the side that is met
    while high > low * (1.0 + _WIDTH) and at_high <= 0.0 < at_low:
        zero = low * (high / low) ** (at_low / (at_low - at_high))
        middle = zero * (1.0 + beyond * _WIDTH / 3.0)
        if not low < middle < high:
            middle = math.sqrt(low * high)
        at_middle = over(middle)
        if at_middle <= 0.0:
            high, at_high = middle, at_middle
            beyond = -1.0 if beyond > 0.0 else 2.0 * beyond
        else:
            low, at_low = middle, at_middle
            beyond = 1.0 if beyond < 0.0 else 2.0 * beyond
    return high
