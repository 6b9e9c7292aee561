"""Monte-Carlo p-values of one drawn value among others of its space (Barnard 1963).

A value that was drawn uniformly is exchangeable with others that are drawn from the same space
without replacement, unless the model depends on it. So its rank among them is uniform.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

ENOUGH = 10  # others that score at least as high: then more draws change the p-value little


def p_value(score: float, others: ArrayLike) -> float:
    """Compute P[a value drawn like the others scores at least as high as this one does].

    score: of the drawn value; others: (k,), of k others, drawn without it and without replacement;
    higher = more likely learnt. Ties count against the drawn value. 1 for a score of NaN or −∞,
    which is not evidence, and others that are NaN count as high. At least 1/(k + 1).
    """
    rest = np.asarray(others, dtype=float)
    if math.isnan(score) or score == -math.inf:
        return 1.0
    as_high = int((~(rest < score)).sum())
    return (1 + as_high) / (1 + rest.size)


def stopped_p_value(as_high: int, draws: int, limit: int) -> float:
    """Compute the p-value of draws that stop at the tenth other one that scores as high.

    as_high: others that scored at least as high in `draws` draws, at most `limit` in all. Stopped
    early, p = 10/draws; else (1 + as_high)/(1 + draws). Source: Besag and Clifford (Biometrika 78,
    1991). Raises ValueError for counts that no such draws have.
    """
    if not 0 <= as_high <= min(ENOUGH, draws) or draws > limit:
        raise ValueError(f"{as_high} as high in {draws} draws of at most {limit}")
    if as_high == ENOUGH:
        return ENOUGH / draws
    if draws < limit:
        raise ValueError(f"draws ended at {draws} of {limit} with {as_high} as high")
    return (1 + as_high) / (1 + draws)


def counted(parts: Iterable[ArrayLike]) -> tuple[int, int]:
    """Count others that score at least as high as the drawn value, until ten do: (as high, draws).

    parts: scores, each part computed only where it is needed; the drawn value's own is the first of
    all. A score that is NaN counts against the drawn value.
    """
    scores = iter(parts)
    first = np.asarray(next(scores), dtype=float)
    own, as_high, draws = first[0], 0, 0
    for part in chain([first[1:]], scores):
        others = np.asarray(part, dtype=float)
        high = np.flatnonzero(~(others < own))
        if as_high + len(high) >= ENOUGH:
            return ENOUGH, draws + int(high[ENOUGH - as_high - 1]) + 1
        as_high, draws = as_high + len(high), draws + len(others)
    return as_high, draws


def both(one: float, other: float) -> float:
    """Combine the p-values of two independent values: x (1 − ln x) of their product x.

    It is Fisher's combination of two. 0 only where a p-value is 0.
    """
    product = one * other
    return min(1.0, product * (1.0 - math.log(product))) if product > 0 else 0.0
