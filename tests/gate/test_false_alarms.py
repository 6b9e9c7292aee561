"""How often a gate of six metrics cries wolf, and how often it catches one; by simulation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.gate import rise
from audit.gate.metric import Metric
from audit.gate.outcome import State
from audit.gate.policy import Regression
from audit.gate.regression import Pair, _rises
from audit.statistics.order_statistics import median_interval

BUILDS = 5000
RATES = ((0.02, 100), (0.1, 61), (0.9, 100), (0.4, 49))
SHIFTS = (0.0, 1.0)  # of normal scores of 61 members and 59 controls: AUC 0.5 and 0.76


@pytest.fixture(scope="module")
def areas(make: SimpleNamespace) -> list[list[Metric]]:
    """AUC-like metrics, drawn once: their intervals are what takes long."""
    draw = np.random.default_rng(3)
    return [
        [make.metric(make.area(draw.normal(shift, size=61), draw.normal(size=59)))
         for _ in range(60)]
        for shift in SHIFTS
    ]  # fmt: skip


def metrics(
    make: SimpleNamespace, draw: np.random.Generator, rates: Any, areas: list[list[Metric]]
) -> list[Metric]:
    found = [make.metric(make.rate(int(draw.binomial(n, p)), n)) for p, n in rates]
    return found + [pool[draw.integers(len(pool))] for pool in areas]


def build(before: list[Metric], after: list[Metric]) -> list[State]:
    pairs = [Pair("x", a, b) for a, b in zip(before, after, strict=True)]
    return [check.state for check in _rises(pairs, Regression(), changed=False)]


def test_where_nothing_changed_at_most_one_build_in_twenty_fails(
    make: SimpleNamespace,
    generator: np.random.Generator,
    areas: list[list[Metric]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rise, "noticed", lambda *_: None)  # for the sentence only, and slow
    alarms = 0
    for _ in range(BUILDS):
        states = build(*(metrics(make, generator, RATES, areas) for _ in range(2)))
        alarms += State.FAIL in states
    assert alarms / BUILDS < 0.05 + 3 * np.sqrt(0.05 * 0.95 / BUILDS)
    assert alarms / BUILDS < 0.05  # exact tests and wide intervals: well below
    assert alarms > 0  # and not because nothing can ever fail


def test_a_real_regression_is_caught_as_often_as_stated(
    make: SimpleNamespace,
    generator: np.random.Generator,
    areas: list[list[Metric]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From 2 % to 12 % of 100, among six metrics, baseline and run both random: 59 % (docs/ci.md).

    The 59 % is the sum over both binomial laws of what Fisher's test at 0.05/6 rejects; Holm can
    only add to it. As the only gated metric: 84 %.
    """
    from scipy.stats import binom

    table = [[rise.fisher(a, 100, b, 100) for b in range(101)] for a in range(101)]
    weights = np.outer(binom.pmf(np.arange(101), 100, 0.02), binom.pmf(np.arange(101), 100, 0.12))
    alone, first = (float(weights[np.array(table) < level].sum()) for level in (0.05, 0.05 / 6))
    assert (round(alone, 2), round(first, 2)) == (0.84, 0.59)
    monkeypatch.setattr(rise, "noticed", lambda *_: None)
    worse = ((0.12, 100), *RATES[1:])
    caught, builds = 0, 400
    for _ in range(builds):
        before, after = (
            metrics(make, generator, RATES, areas),
            metrics(make, generator, worse, areas),
        )
        caught += build(before, after)[0] == State.FAIL
    assert caught / builds == pytest.approx(first, abs=3 * np.sqrt(0.25 / builds))


def test_medians_of_exposure_do_not_cry_wolf(
    make: SimpleNamespace, generator: np.random.Generator
) -> None:
    """Eleven exposures of secrets never seen: exponential, skewed, few."""
    alarms, builds = 0, 2000
    base = make.rate(0, metric="exposure_1_copy", attack="exposure", unit="bits")
    for _ in range(builds):
        pair = []
        for _ in range(2):
            found = median_interval(generator.exponential(1.4427, size=11))
            changes = {"value": found.value, "ci": found.ci, "k": None, "n": 11}
            pair.append(make.metric(base.model_copy(update=changes)))
        p = rise.p_value(*pair)
        alarms += p is not None and p < 0.05
    assert alarms / builds < 0.05
