"""The matrix of correlated noise: the banded square root of all prefix sums, and its inverse.

What a model is after t steps is a sum of t releases. Noise C⁻¹Z on the releases is A·C⁻¹·Z on the
sums, where A sums prefixes. Without bands the best C is close to the square root of A, whose first
column is (−1)^i·binom(−½, i) (Fichtenberger et al. 2022, arXiv 2202.11205). Cut to b̂ numbers and
scaled to norm 1, it is the banded square root (Kalinin and Lampert 2024, arXiv 2405.13763).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def square_root(bands: int) -> tuple[float, ...]:
    """Return the first column of C: positive, falling, of norm 1."""
    column = [1.0]
    for i in range(1, bands):
        column.append(column[-1] * (2 * i - 1) / (2 * i))
    norm = math.hypot(*column)
    return tuple(one / norm for one in column)


def inverse(column: tuple[float, ...], steps: int) -> np.ndarray:
    """Return the first column of C⁻¹, of so many numbers."""
    first, others = column[0], column[1:]
    answer = np.zeros(steps)
    answer[:1] = 1.0 / first
    for t in range(1, steps):
        past = answer[max(0, t - len(others)) : t][::-1]
        answer[t] = -float(np.dot(others[: len(past)], past)) / first
    return answer


def participations(steps: int, bands: int) -> int:
    """Return ⌈T/b̂⌉, the most steps of one group."""
    return -(-steps // bands)


def times(column: Sequence[float] | np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Compute C times rows (T, …)."""
    total = column[0] * rows
    for i, band in enumerate(column[1 : len(rows)], 1):
        total[i:] += band * rows[:-i]
    return np.asarray(total)


def error(column: tuple[float, ...], steps: int) -> float:
    """Return the root of the mean squared error of all prefix sums, for rows of Z of deviation 1:
    ‖A·C⁻¹‖ / √T."""
    sums = np.cumsum(inverse(column, steps))
    return math.sqrt(float(np.dot(np.arange(steps, 0, -1), sums**2)) / steps)
