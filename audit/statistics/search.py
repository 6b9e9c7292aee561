"""Bisection: the last number for which a condition holds."""

from __future__ import annotations

import math
from collections.abc import Callable

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
