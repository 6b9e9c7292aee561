"""Exact test of the low end of a ROC: do members crowd above the highest controls?

Where a few of many members leak completely, the first places show it and averages do not.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray


def p_value(above: int, members: int, controls: int, passing: int = 0) -> float:
    """Compute P[at least `above` members precede control number `passing` + 1].

    Under the null all n + c candidates are exchangeable: every order of members and controls is
    equally likely. Then `above` members before that control means that of the first
    above + passing candidates at least `above` are members, a hypergeometric probability (floored
    at 1e-300). Raises ValueError unless 0 <= above <= members and 0 <= passing < controls.
    """
    if not (0 <= above <= members and 0 <= passing < controls):
        raise ValueError(
            f"{above} of {members} members above {passing} of {controls} controls is no such count"
        )
    return float(tails(np.array([above]), np.array([members]), members + controls, passing)[0])


def tails(
    above: NDArray[np.int64], members: NDArray[np.int64], every: int, passing: int
) -> NDArray[np.float64]:
    """Compute `p_value` of many counts, of `every` candidates; 1 where too few are controls."""
    p = scipy.stats.hypergeom.sf(above - 1, every, members, above + passing)
    some = (above > 0) & (every - members > passing)
    return np.where(some, np.clip(p, 1e-300, 1.0), 1.0)


def smallest(members: int, controls: int, passing: int = 0) -> float:
    """Compute the smallest p-value possible: that of all members above."""
    return p_value(members, members, controls, passing)


def above(
    members: ArrayLike, controls: ArrayLike, passing: int, stream: np.random.Generator
) -> int:
    """Count the members before control number `passing` + 1, ties in a random order.

    members, controls: scores, higher = more likely a member. Raises ValueError for NaN, or unless
    0 <= passing < len(controls).
    """
    inside, outside = np.asarray(members, dtype=float), np.asarray(controls, dtype=float)
    if np.isnan(inside).any() or np.isnan(outside).any():
        raise ValueError("a score is NaN")
    if not 0 <= passing < len(outside):
        raise ValueError(f"there is no control number {passing + 1} of {len(outside)}")
    scores = np.concatenate([inside, outside])
    order = np.lexsort((stream.random(len(scores)), -scores))
    is_control = order >= len(inside)
    place = int(np.flatnonzero(is_control)[passing])
    return place - passing


def passing_at(fpr: float, controls: int) -> int:
    """Compute how many controls may pass at this false positive rate."""
    return math.floor(fpr * controls + 1e-9)
