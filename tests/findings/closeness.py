"""How close a bound on ε can come: its law on randomised response."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from audit.findings.bounds import rules
from audit.statistics.nested_guesses import epsilon_lower


def median_bound(m: int, epsilon: float, runs: int = 150) -> float:
    """The median bound (δ = 0, 95 %) from m coins that are told right with odds e^ε.

    Whoever is told "in" is above whoever is told "out", so each guess is right with probability q,
    independently: (r, v) of every rule over units in the order of the rules.
    """
    right = np.random.default_rng(0).random((runs, m)) < 1 / (1 + np.exp(-epsilon))
    sizes = [rule.count for rule in rules(m)]
    counts = np.cumsum(right, axis=1)[:, np.array(sizes) - 1].tolist()
    found = [_bound(m, tuple(zip(sizes, row, strict=True))) for row in counts]
    return float(np.median(found))


@cache
def _bound(m: int, guesses: tuple[tuple[int, int], ...]) -> float:
    return epsilon_lower(m, guesses)


def figures(text: str) -> list[float]:
    """The numbers of a sentence, in order."""
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,.]*\d|\d", text)]


def six(value: Any) -> Any:
    """These numbers as a result holds them, to a unit in the sixth digit."""
    return pytest.approx(value, rel=1e-5, abs=1e-12)
