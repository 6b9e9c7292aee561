"""(n, p)-discoverable extraction (Hayes et al. 2024, arXiv 2410.19482).

A text z is (n, p)-discoverable if n independent draws contain it with probability at least p.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def discovered(probabilities: ArrayLike, n: int) -> NDArray[np.float64]:
    """Compute the probability that each secret is seen in n draws: 1 - (1-p_z)^n, same shape.

    probabilities: (secrets,), p_z = probability that one draw is z; the draws are independent of
    each other. Precise for tiny p_z. Raises ValueError for n < 0 or a probability outside [0, 1].
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError("probabilities must lie in [0, 1]")
    if n < 0:
        raise ValueError(f"the number of draws cannot be negative; got {n}")
    if n == 0:
        return np.zeros_like(p)
    with np.errstate(divide="ignore"):  # log of 0 where p = 1: seen for certain
        seen: NDArray[np.float64] = -np.expm1(n * np.log1p(-p))
    return seen


def expected_distinct(probabilities: ArrayLike, n: int) -> float:
    """Compute the expected number of distinct secrets in n draws: the sum of `discovered`."""
    return float(np.sum(discovered(probabilities, n)))


def queries_needed(p_z: float, p: float) -> float:
    """Compute the fewest draws n for which z is (n, p)-discoverable; inf if p_z = 0.

    p_z: probability that one draw is z; p: the probability wanted. Raises ValueError unless
    0 <= p_z <= 1 and 0 < p < 1.
    """
    if not 0.0 <= p_z <= 1.0:
        raise ValueError(f"a probability lies between 0 and 1; got {p_z}")
    if not 0.0 < p < 1.0:
        raise ValueError(f"the probability wanted must lie strictly between 0 and 1; got {p}")
    if p_z == 0.0:
        return math.inf
    if p_z >= p:
        return 1.0
    draws = math.log1p(-p) / math.log1p(-p_z)
    return float(math.ceil(draws)) if math.isfinite(draws) else math.inf
