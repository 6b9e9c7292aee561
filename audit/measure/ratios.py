"""Utility as ratios of sums over blocks of text, from which its intervals can be drawn again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit.results.schema import Measure
from audit.statistics.bootstrap import bootstrap_ratio
from audit.statistics.interval import Interval


@dataclass(frozen=True)
class Ratio:
    """One measure: the sum of `above` over that of `below`, one number of each for every block.

    exponential: whether the measure is e to the power of the ratio, such as a perplexity.
    answered: tokens answered by the release before STOP; None: all. bound: as in `Measure`.
    """

    name: str
    above: Sequence[float]
    below: Sequence[float]
    unit: str
    answered: int | None
    exponential: bool = False
    bound: Literal["lower"] | None = None


def measures(ratios: Sequence[Ratio], stream: np.random.Generator) -> dict[str, Measure]:
    """Measure each with its bootstrap interval, in their order: they share the stream."""
    return {ratio.name: _measure(ratio, stream) for ratio in ratios}


def _measure(ratio: Ratio, stream: np.random.Generator) -> Measure:
    transform = np.exp if ratio.exponential else None
    interval: Interval = bootstrap_ratio(ratio.above, ratio.below, stream, transform=transform)
    return Measure(
        value=interval.value if interval.value is not None else math.inf,
        ci=interval.ci,
        n=interval.n,
        confidence=interval.confidence,
        method=interval.method,
        unit=ratio.unit,
        answered=ratio.answered,
        bound=ratio.bound,
    )
