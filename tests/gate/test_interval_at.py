"""The rise that is said to show does, with the interval that a value of its size really has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from audit.findings.ranks import _within
from audit.gate import increase_test
from audit.gate.outcome import State
from audit.gate.policy import Regression
from audit.gate.regression import _increases
from audit.results.measurement import Measurement, measured
from audit.statistics import roc
from audit.statistics.bounded_mean import mean_interval
from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.interval import Interval
from audit.statistics.order_statistics import median_interval
from tests.gate import make

SPACE = 100_000
TOP = math.log2(SPACE)
PASS, FAIL, OPEN = State.PASS, State.FAIL, State.INCONCLUSIVE


def scored(found: Interval, unit: str, **changes: object) -> Measurement:
    one: Measurement = make.rate(0).changed(unit=unit, k=None, **measured(found), **changes)
    return one


def exposed(bits: Sequence[float], space: int | None = SPACE) -> Measurement:
    return scored(_within(median_interval(bits), SPACE), "bits", space=space)


def shifted(n: int, by: float) -> Measurement:
    """The area of n members that stand so far above n others."""
    row = np.arange(float(n))
    found: Measurement = make.area(row + by, row)
    return found


def accuracy(n: int, by: float) -> Measurement:
    row = np.arange(float(n))
    return scored(roc.top_half_accuracy(row + by, row + 0.1), "share of right calls")


def mean(value: float) -> Measurement:
    return scored(mean_interval([value] * 60), "probability of a planted secret per generation")


def state(before: Measurement, after: Measurement, many: int = 1) -> State:
    """Of the first of so many equal comparisons; what is open names no rise that would show."""
    found = _increases([("x", before, after)] * many, Regression(), changed=False)[0]
    assert found.state != OPEN or "would have been detected" not in found.sentence
    return found.state


def p_of(before: Measurement, after: Measurement) -> float:
    p = increase_test.p_value(before, after)
    assert p is not None
    return p


KINDS: dict[str, tuple[Callable[[int, float], Measurement], Sequence[int]]] = {
    "area": (lambda n, by: shifted(n, by + 0.25 * (by > 0)), (10, 15, 30, 60)),
    "accuracy": (accuracy, (20, 200)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [1, 6])
def test_value_above_the_stated_reach_fails_alone(kind: str, many: int) -> None:
    """Just above what is said to be seen is, and just below is not; where even the greatest would
    not fail, nothing passes."""
    of, sizes = KINDS[kind]
    level = 0.05 / many
    for n in sizes:
        before = of(n, 0)
        said = increase_test.detectable(before, before, level, 0.0)
        for shift in range(1, n + 1, max(1, n // 50)) if said else ():
            after = of(n, shift)
            assert after.value is not None and said is not None
            if abs(after.value - said) > 1e-4 and after.value > 0.5 + 1 / n:
                assert (p_of(before, after) < level) == (after.value > said), (after.value, said)
        best = p_of(before, of(n, n)) < level
        assert state(before, before, many) == (PASS if best else OPEN)


@pytest.mark.parametrize(("n", "many"), [(5, 1), (8, 1), (10, 6), (12, 20)])
def test_too_few_for_the_greatest_area_pass_nothing(n: int, many: int) -> None:
    same, most = shifted(n, 0), shifted(n, n)
    assert state(same, most, many) == state(same, same, many) == OPEN


@pytest.mark.parametrize(("n", "m"), [(5, 500), (500, 5), (30, 70)])
def test_smaller_side_of_an_area_counts(n: int, m: int) -> None:
    draw = np.random.default_rng(0)
    before = make.area(draw.normal(size=n), draw.normal(size=m))
    most = make.area(np.arange(n) + 1e9, np.arange(m))
    assert (state(before, before) == PASS) == (p_of(before, most) < 0.05)


def test_mean_above_the_stated_reach_fails_alone() -> None:
    before = mean(1e-6)
    said = increase_test.detectable(before, before, 0.05, 0.0)
    assert said is not None and said < 0.3
    for value in (said - 1e-3, said + 1e-3):
        assert (p_of(before, mean(value)) < 0.05) == (value > said)
    assert state(before, before) == PASS


def test_hits_without_their_number_are_as_wide() -> None:
    def share(k: int) -> Measurement:
        return scored(clopper_pearson(k, 40), "share of right calls")

    said = increase_test.detectable(share(20), share(20), 0.05, 0.0)
    assert said is not None
    for k in range(21, 41):
        assert (p_of(share(20), share(k)) < 0.05) == (k / 40 >= said - 1e-4)


CALM = [1.0 + i / 20 for i in range(21)]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_too_few_exposures_for_an_interval_never_pass(n: int) -> None:
    """Their interval is the whole scale: not even all secrets at its top would fail."""
    before, calm = exposed([1.4] * n), exposed([b + 6 for b in CALM])
    for was, now in ((before, exposed([TOP] * n)), (before, before),
                     (calm, exposed([8.0] * n)), (before, calm)):  # fmt: skip
        assert state(was, now) == OPEN


@pytest.mark.parametrize("n", [6, 8, 21, 60])
@pytest.mark.parametrize("many", [1, 6, 20])
def test_reach_of_exposure_is_on_its_scale_and_fails(n: int, many: int) -> None:
    bits = list(np.random.default_rng(n).exponential(1.4427, size=n))
    before = exposed(bits)
    said = increase_test.detectable(before, before, 0.05 / many, 0.0)
    if said is None:
        assert state(before, before, many) == OPEN
        return
    assert before.value is not None and before.value < said < TOP
    after = exposed([min(TOP, b + said - (before.value or 0.0)) for b in bits])
    assert p_of(before, after) < 0.05 / many
    assert 0.5**n < 0.05 / many  # six of six are 1/64: no more can be said of a median


def test_exposure_at_an_unknown_or_reached_top_is_open() -> None:
    for before, after, expected in (
        (exposed([0.3, 1, 2, 8, 8, 9, 12, TOP]), None, OPEN),
        (exposed(CALM), None, PASS),
        (exposed(CALM, space=None), None, OPEN),
        (exposed(CALM), exposed([b + 9 for b in CALM]), FAIL),
    ):
        assert state(before, after or before) == expected


@pytest.mark.parametrize("n", [100, 600])
def test_reach_of_a_true_positive_rate_is_unknown(n: int) -> None:
    """It depends on how far above the controls the members stand."""
    draw = np.random.default_rng(0)
    metric, most = (
        scored(roc.tpr_at_fpr(members, controls, 0.01), "share of members")
        for members, controls in (
            (draw.normal(size=n) + 1, draw.normal(size=n)),
            (np.full(n, 1e9), np.arange(n)),
        )
    )
    assert state(metric, metric) == OPEN
    assert state(metric, most) == (FAIL if n == 600 else OPEN)
    assert state(most, most) == OPEN  # all of so few, and not of all


def test_interval_of_an_unknown_kind_has_no_reach() -> None:
    """Such as a bootstrap's."""
    odd = scored(Interval(0.1, 0.09, 0.14, 50, 0.95, "percentile bootstrap"), "share of x")
    assert state(odd, odd) == OPEN


def test_end_of_the_scale_is_no_margin() -> None:
    """TPR 20 % [0, 40 %] after 0 [0, 5 %]: what may be 0 has not risen."""

    def share(value: float, low: float, high: float) -> Measurement:
        return scored(Interval(value, low, high, 100, 0.95, "by hand"), "share of members")

    assert p_of(share(0, 0, 0.05), share(0.2, 0, 0.4)) == 1.0
    assert p_of(share(0.6, 0.5, 1.0), share(1.0, 0.99, 1.0)) == 1.0
    assert p_of(share(0, 0, 0.05), share(0.2, 0.15, 0.4)) < 1e-4
