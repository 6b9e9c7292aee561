"""One unit in T Poisson-sampled Gaussian steps: its log-likelihood ratio, and the law of it.

In each step x ~ N(b, s²), where b is 1 with probability q if the unit is present, else 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from audit.statistics.sums import sum_law
from audit.statistics.white_noise import normal_p

Floats = NDArray[np.float64]
_PLACES = 2**15  # of the grid of one step's ratio
_TAIL = 9.0  # standard deviations of x beyond which nothing is left


def log_ratios(x: Floats, deviations: Floats, q: float) -> Floats:
    """Compute Σ_t log(1 − q + q·e^{(2x − 1)/2s²}), (m,), from x (T, m) and s (m,) or (T, m).

    The log-likelihood ratio of present against absent: no other score separates them better.
    """
    exponents = (2.0 * x - 1.0) / (2.0 * deviations**2)
    return np.asarray(np.logaddexp(_log(1.0 - q), math.log(q) + exponents).sum(axis=0))


@dataclass(frozen=True)
class Area:
    """P[score of a present unit > score of an absent unit], measured beside what is due.

    p: two-sided, of this measured value if the mechanism is as stated and units are independent.
    """

    measured: float
    due: float
    p: float


def area(present: Floats, absent: Floats, deviation: float, q: float, steps: int) -> Area:
    """Compare the area under the ROC curve of the scores `log_ratios` with what is due.

    Due are its mean and, but for terms in 1/n², its variance: both follow from the laws of the
    scores. The p-value takes the area for normal.
    """
    one, other = _laws(deviation, q, steps)
    below, above = np.cumsum(one) - one / 2.0, 1.0 - np.cumsum(other) + other / 2.0
    due = float(other @ below)
    variance = float(other @ (below - due) ** 2) / len(present)
    variance += float(one @ (above - due) ** 2) / len(absent)
    order = np.sort(absent)
    found = (np.searchsorted(order, present) + np.searchsorted(order, present, "right")) / 2.0
    measured = float(found.mean()) / len(absent)
    return Area(measured, due, normal_p((measured - due) / math.sqrt(variance)))


def _laws(s: float, q: float, steps: int) -> tuple[Floats, Floats]:
    """Compute the laws of the score of an absent and of a present unit, on one grid."""
    ends = np.array([[-_TAIL * s], [1.0 + _TAIL * s]])
    low, high = (float(log_ratios(x[None], np.array([s]), q)[0]) for x in ends)
    width = (high - low) / _PLACES
    x = _place(low + width * np.arange(-0.5, _PLACES + 1), s, q)
    absent = np.diff(ndtr(x / s))
    present = (1.0 - q) * absent + q * np.diff(ndtr((x - 1.0) / s))
    one, other = (sum_law(law / law.sum(), steps) for law in (absent, present))
    size = max(one.size, other.size)
    return np.pad(one, (0, size - one.size)), np.pad(other, (0, size - other.size))


def _place(ratios: Floats, s: float, q: float) -> Floats:
    """Compute the x whose ratio in one step is this."""
    weight = np.maximum(np.expm1(ratios) + q, 0.0) / q
    with np.errstate(divide="ignore"):
        return np.asarray(0.5 + s * s * np.log(weight))


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
