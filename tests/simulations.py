"""Sizes of simulations, laws to draw from, and how often a test may err.

Simulations are small in the default suite, large under the `calibration` marker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Draw = Callable[[np.random.Generator, Any], np.ndarray]
BOUNDED: dict[str, tuple[Draw, float]] = {  # laws on [0, 1] by name, and their means
    "1 in 100": (lambda draw, shape: (draw.random(shape) < 0.01) * 1.0, 0.01),
    "1 in 10": (lambda draw, shape: (draw.random(shape) < 0.1) * 1.0, 0.1),
    "coin": (lambda draw, shape: (draw.random(shape) < 0.5) * 1.0, 0.5),
    "19 in 20": (lambda draw, shape: (draw.random(shape) < 0.95) * 1.0, 0.95),
    "uniform": (lambda draw, shape: draw.random(shape), 0.5),
    "small": (lambda draw, shape: draw.random(shape) / 10, 0.05),
    "cubes": (lambda draw, shape: draw.random(shape) ** 9, 0.1),
    "constant": (lambda draw, shape: np.full(shape, 0.3), 0.3),
}


def repeats(few: int, many: int) -> pytest.MarkDecorator:
    """Parametrises `runs`; an exact test or a bound that `few` runs keep stands for `many`."""
    large = pytest.param(many, marks=pytest.mark.calibration)
    return pytest.mark.parametrize("runs", [few, large])


def more(*cases: Any) -> list[Any]:
    """Further cases of a law, that run under `calibration` alone."""
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=pytest.mark.calibration) for row in rows]


def most(runs: int, error: float = 0.05) -> float:
    """Computes the share of so many runs that may err at this rate: three standard errors above."""
    return error + 3 * (error * (1 - error) / runs) ** 0.5
