"""The last number for which a condition holds, and the last where a function is below zero."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

Condition = Callable[[float], bool]


def largest(
    holds: Condition, low: float, high: float = math.inf, width: float = 0.0, relative: float = 0.0
) -> float:
    """Find the largest x in [low, high] where the condition holds, approached from below.

    holds: true up to some point, false above it. It is assumed true at low and false at a finite
    high, and evaluated at neither; with high = inf an upper end is found by doubling low + 1, for
    low >= 0. The answer satisfies the condition (or is low). It lies below the true end by at most
    `width`, by at most `relative` times the larger end of the bracket, or by one float.
    """
    if math.isinf(high):
        high = low + 1.0
        while holds(high):
            low, high = high, 2.0 * high
    while high - low > max(width, relative * max(abs(low), abs(high))):
        middle = (low + high) / 2.0
        if not low < middle < high:  # the two ends are neighbouring floats
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def smallest(
    holds: Condition, low: float, high: float, width: float = 0.0, relative: float = 0.0
) -> float:
    """Find the smallest x in [low, high] where the condition holds, approached from above.

    The mirror image of `largest`: false at low, true at high, and both are taken for granted.
    """
    return -largest(lambda x: holds(-x), -high, -low, width, relative)


def last_negative(rising: Callable[[float], float], low: float, width: float) -> float:
    """Find where a continuous, rising function stops being negative, approached from below.

    It is negative at `low` >= 0, and not evaluated there. The answer is at most `width` below the
    end, and the function is negative there. Brent's method takes a third of bisection's steps.
    """
    high = low + 1.0
    while rising(high) < 0.0:
        low, high = high, 2.0 * high
    if rising(low) < 0.0:
        end, _ = brentq(rising, low, high, xtol=width / 4.0, full_output=True, disp=False)
        below: float = max(low, end - width / 2.0)
        if rising(below) < 0.0 <= rising(below + width):
            return below
    return largest(lambda x: rising(x) < 0.0, low, high, width)
