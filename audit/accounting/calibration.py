"""Calibration: the least noise that reaches a target ε."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from audit.accounting.composition import TOLERANCE, ceiling
from audit.accounting.composition import epsilon as epsilon_of
from audit.accounting.mechanism import Mechanism
from audit.core.errors import UsageError

LARGEST, LEAST = 1e4, 2e-2  # noise multipliers
_NEAR, _CLOSE = (5e-2, 1e-2), (5e-4, 1e-3)  # tolerances: of ε, of the noise multiplier
_FLATTEST = -1e-3


def calibrate(epsilon: float, delta: float, mechanism: Mechanism) -> float:
    """Find the least noise multiplier of the first term with ε(δ) <= epsilon, to a thousandth.

    epsilon: target in nats. mechanism: the noise of its further terms is given, that of its first
    does not count. `audit.accounting.epsilon` of it with the noise found is at most the target.
    Returns at least 0.02. Raises UsageError if no noise multiplier up to 10,000 reaches the target.
    """
    first, *fixed = mechanism.terms

    def having(noise_multiplier: float) -> Mechanism:
        terms = replace(first, noise_multiplier=noise_multiplier), *fixed
        return replace(mechanism, terms=terms)

    def over(reached: float) -> float:
        return math.log(max(reached, 1e-12 * epsilon) / epsilon)

    def roughly(noise_multiplier: float) -> float:
        return over(ceiling(having(noise_multiplier), math.log(delta)))

    def within(tolerance: float) -> Callable[[float], float]:
        nats = max(TOLERANCE, tolerance * min(1.0, epsilon))  # a larger one never lowers ε
        return lambda noise_multiplier: over(epsilon_of(having(noise_multiplier), delta, nats))

    _check(epsilon, delta)
    if roughly(LARGEST) > 0.0 and (best := epsilon_of(having(LARGEST), delta)) > epsilon:
        raise UsageError(
            f"epsilon={epsilon:g} at delta={delta:g} cannot be reached: even a noise multiplier of "
            f"{LARGEST:g} gives {best:.4g}; raise epsilon, or reduce the steps or other releases"
        )
    sigma, slope = 1.0, -2.0
    if math.isfinite(roughly(LARGEST)):
        sigma, slope = _smallest(roughly, sigma, slope, _NEAR[1])
    for tolerance, width in (_NEAR, _CLOSE):
        sigma, slope = _smallest(within(tolerance), sigma, slope, width)
    return sigma


def least_noise(
    epsilon_of: Callable[[float], float],
    target: float,
    bounds: tuple[float, float] = (LEAST, LARGEST),
) -> float:
    """Find the smallest noise for which a falling ε is at most the target, to a thousandth.

    epsilon_of: ε, or a mean of several, of a noise, in the target's nats; may be inf for little
        noise. bounds: the least and the largest noise. Raises UsageError where no noise in between
        comes to the target, with what it comes to.
    """

    def over(noise: float) -> float:
        return math.log(min(max(epsilon_of(noise), 1e-12 * target), 1e9 * target) / target)

    least, most = (epsilon_of(noise) for noise in bounds)
    if not most <= target <= least:
        raise UsageError(
            f"{target:g} nats cannot be reached: noise gives {most:.4g} to {least:.4g}"
        )
    noise, _ = _smallest(over, 1.0, -2.0, _CLOSE[1], bounds)
    if (reached := epsilon_of(noise)) < 0.98 * target:
        raise UsageError(
            f"{target:g} nats cannot be reached: noise of {noise:.4g} gives {reached:.4g}, and a "
            "little less noise gives more than the target"
        )
    return noise


def _check(epsilon: float, delta: float) -> None:
    if not 0.0 < epsilon < math.inf:
        raise UsageError(
            f"epsilon={epsilon:g}: no noise reaches it; the target must be above 0 and finite"
        )
    if not 0.0 < delta < 1.0:
        raise UsageError(
            f"delta={delta:g}: Gaussian noise has a finite epsilon only for 0 < delta < 1; "
            "min(1/(10·records), 1e-5) is usual"
        )


def _smallest(
    over: Callable[[float], float],
    start: float,
    slope: float,
    width: float,
    bounds: tuple[float, float] = (LEAST, LARGEST),
) -> tuple[float, float]:
    """Find the smallest noise multiplier with over(σ) <= 0, to about `width` of itself.

    over: log(ε/target), falling in σ. Secant steps in log σ, beginning with this slope, each aimed
    just beyond the zero, inside a bracket. An evaluation takes seconds, so bisection is too slow.
    Returns σ and the slope there.
    """
    (low, high), here, at_here = bounds, start, over(start)
    while high > low * (1.0 + width):
        low, high = (here, high) if at_here > 0.0 else (low, here)
        step = min(1.0, max(-1.0, -at_here / slope))
        if -width <= step <= 0.0:
            break
        there = here * math.exp(step + width / 2.0)
        if not low < there < high:
            there = math.sqrt(low * high)
        at_there, apart = over(there), math.log(there / here)
        if abs(apart) > 2.0 * width:  # else the error of `over` would dominate the slope
            slope = min(_FLATTEST, (at_there - at_here) / apart)
        here, at_here = there, at_there
    return high, slope
