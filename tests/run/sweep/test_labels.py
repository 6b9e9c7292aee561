"""Means over seeds say how often their intervals hold the truth."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from audit.results.schema import Measure
from audit.run.sweep import over_seeds
from audit.statistics.t_interval import COVERAGE


def measures(unit: str, *values: float) -> list[Measure]:
    return [Measure(value=v, ci=None, n=40, method="bootstrap", unit=unit) for v in values]


@pytest.mark.parametrize(
    ("unit", "kind"), [("perplexity", "t-interval of the logarithm"), ("share", "t-interval")]
)
def test_a_t_interval_over_seeds_is_labelled_by_its_coverage(unit: str, kind: str) -> None:
    said = over_seeds.mean_measure(measures(unit, 0.3, 0.4, 0.6)).method
    assert said == f"mean over 3 seeds, {kind} ({COVERAGE})"
    findings: list[Any] = [SimpleNamespace(value=v, unit="AUC") for v in (0.5, 0.7)]
    assert over_seeds._mean(findings).method == f"mean over 2 seeds, t-interval ({COVERAGE})"


@pytest.mark.parametrize("values", [(0.3,), (0.3, 0.3)])
def test_without_an_interval_nothing_is_said_of_coverage(values: tuple[float, ...]) -> None:
    assert "covers" not in over_seeds.mean_measure(measures("share", *values)).method
    findings: list[Any] = [SimpleNamespace(value=v, unit="AUC") for v in values]
    assert "covers" not in over_seeds._mean(findings).method
