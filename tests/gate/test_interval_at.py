"""The rise that is said to show does, with the interval that a value of its size really has."""

from __future__ import annotations

import math

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
from audit.statistics.interval import Interval
from audit.statistics.order_statistics import median_interval
from tests.gate import make

SPACE = 100_000
TOP = math.log2(SPACE)


def scored(found: Interval, unit: str, **changes: object) -> Measurement:
    one: Measurement = make.rate(0).changed(unit=unit, k=None, **measured(found), **changes)
    return one


def exposed(bits: list[float], space: int | None = SPACE) -> Measurement:
    found = _within(median_interval(bits), SPACE)
    return scored(found, "bits", space=space)


def held(metric: Measurement, after: Measurement, many: int = 1) -> tuple[State, str]:
    found = _increases([("x", metric, after)] * many, Regression(), changed=False)[0]
    return found.state, found.sentence


def around(before: Measurement, n: int, level: float) -> None:
    """Real scores: just above what is said to be seen is, and just below is not."""
    said = increase_test.detectable(before, before, level, 0.0)
    assert said is not None
    row = np.arange(float(n))
    for shift in range(n + 1):
        after = make.area(row + shift + 0.25, row)
        p = increase_test.p_value(before, after)
        assert p is not None
        if abs(after.value - said) > 1e-4 and after.value > 0.5 + 1 / n:
            assert (p < level) == (after.value > said), (after.value, said)


@pytest.mark.parametrize("n", [10, 15, 30, 60])
@pytest.mark.parametrize("many", [1, 6])
def test_an_area_of_that_size_fails_and_a_smaller_one_does_not(n: int, many: int) -> None:
    row = np.arange(float(n))
    before = make.area(row, row)
    if increase_test.detectable(before, before, 0.05 / many, 0.0) is not None:
        around(before, n, 0.05 / many)
    best = increase_test.p_value(before, make.area(row + n, row))
    assert best is not None
    expected = State.PASS if best < 0.05 / many else State.INCONCLUSIVE
    assert held(before, before, many)[0] == expected


@pytest.mark.parametrize(("n", "many"), [(5, 1), (8, 1), (10, 6), (12, 20)])
def test_where_even_the_greatest_area_would_not_fail_nothing_passes(n: int, many: int) -> None:
    row = np.arange(float(n))
    same, most = make.area(row, row), make.area(row + n, row)
    assert held(same, most, many)[0] == State.INCONCLUSIVE
    assert held(same, same, many) == (State.INCONCLUSIVE, held(same, same, many)[1])
    assert "would have been detected" not in held(same, same, many)[1]


@pytest.mark.parametrize("lopsided", [(5, 500), (500, 5), (30, 70)])
def test_the_smaller_side_of_an_area_counts(lopsided: tuple[int, int]) -> None:
    draw = np.random.default_rng(0)
    n, m = lopsided
    before = make.area(draw.normal(size=n), draw.normal(size=m))
    most = make.area(np.arange(n) + 1e9, np.arange(m))
    p = increase_test.p_value(before, most)
    assert p is not None
    assert (held(before, before)[0] == State.PASS) == (p < 0.05)


def test_a_mean_over_secrets_of_that_size_fails_and_a_smaller_one_does_not() -> None:
    unit = "probability of a planted secret per generation"
    before = scored(mean_interval([1e-6] * 60), unit)
    said = increase_test.detectable(before, before, 0.05, 0.0)
    assert said is not None and said < 0.3
    for value in (said - 1e-3, said + 1e-3):
        after = scored(mean_interval([value] * 60), unit)
        p = increase_test.p_value(before, after)
        assert p is not None and (p < 0.05) == (value > said)
    assert held(before, before)[0] == State.PASS


@pytest.mark.parametrize("n", [1, 2, 5])
def test_too_few_exposures_for_an_interval_never_pass(n: int) -> None:
    """Their interval is the whole scale: not even all secrets at its top would fail."""
    before = exposed([1.4] * n)
    assert held(before, exposed([TOP] * n))[0] == State.INCONCLUSIVE
    calm = exposed([7.0 + i / 20 for i in range(21)])
    for was, now in ((before, before), (calm, exposed([8.0] * n)), (before, calm)):
        state, said = held(was, now)
        assert state == State.INCONCLUSIVE and "would have been detected" not in said


@pytest.mark.parametrize("n", [6, 8, 21, 60])
@pytest.mark.parametrize("many", [1, 6, 20])
def test_a_reach_of_exposure_is_on_its_scale_and_fails(n: int, many: int) -> None:
    bits = list(np.random.default_rng(n).exponential(1.4427, size=n))
    before = exposed(bits)
    said = increase_test.detectable(before, before, 0.05 / many, 0.0)
    if said is None:
        assert held(before, before, many)[0] == State.INCONCLUSIVE
        return
    assert before.value < said < TOP
    after = exposed([min(TOP, b + said - before.value) for b in bits])
    p = increase_test.p_value(before, after)
    assert p is not None and p < 0.05 / many
    assert 0.5**n < 0.05 / many  # six of six are 1/64: no more can be said of a median


def test_exposures_that_reach_the_top_already_or_whose_top_is_unknown_do_not_pass() -> None:
    wide = exposed([0.3, 1, 2, 8, 8, 9, 12, TOP])
    assert held(wide, wide)[0] == State.INCONCLUSIVE
    calm = [1.0 + i / 20 for i in range(21)]
    assert held(exposed(calm), exposed(calm))[0] == State.PASS
    unknown = exposed(calm, space=None)
    assert held(unknown, unknown)[0] == State.INCONCLUSIVE
    assert held(exposed(calm), exposed([b + 9 for b in calm]))[0] == State.FAIL


@pytest.mark.parametrize("n", [100, 600])
def test_what_a_true_positive_rate_would_show_is_not_known(n: int) -> None:
    """It depends on how far above the controls the members stand."""
    draw = np.random.default_rng(0)
    found = roc.tpr_at_fpr(draw.normal(size=n) + 1, draw.normal(size=n), 0.01)
    metric = scored(found, "share of members")
    assert held(metric, metric)[0] == State.INCONCLUSIVE
    most = scored(roc.tpr_at_fpr(np.full(n, 1e9), np.arange(n), 0.01), "share of members")
    assert held(metric, most)[0] == (State.FAIL if n == 600 else State.INCONCLUSIVE)
    assert held(most, most)[0] == State.INCONCLUSIVE  # all of so few, and not of all


@pytest.mark.parametrize(("n", "many", "state"), [(20, 1, "PASS"), (20, 6, "INCONCLUSIVE"),
                                                  (200, 6, "PASS")])  # fmt: skip
def test_an_accuracy_says_what_it_would_show(n: int, many: int, state: str) -> None:
    row = np.arange(float(n))
    metric = scored(roc.top_half_accuracy(row, row + 0.1), "share of right calls")
    assert held(metric, metric, many)[0] == state
    said = increase_test.detectable(metric, metric, 0.05 / many, 0.0)
    for shift in range(0, n, max(1, n // 50)) if said else ():
        found = roc.top_half_accuracy(row + shift, row + 0.1)
        after = scored(found, "share of right calls")
        p = increase_test.p_value(metric, after)
        assert p is not None and found.value is not None and said is not None
        if abs(found.value - said) > 1e-4:
            assert (p < 0.05 / many) == (found.value > said)


def test_hits_without_their_number_are_as_wide_as_with_it() -> None:
    unit = "share of right calls"
    from audit.statistics.clopper_pearson import clopper_pearson

    before = scored(clopper_pearson(20, 40), unit)
    said = increase_test.detectable(before, before, 0.05, 0.0)
    assert said is not None
    for k in range(21, 41):
        p = increase_test.p_value(before, scored(clopper_pearson(k, 40), unit))
        assert p is not None and (p < 0.05) == (k / 40 >= said - 1e-4)


def test_an_interval_of_an_unknown_kind_says_nothing_of_other_places() -> None:
    """Such as a bootstrap's."""
    odd = scored(Interval(0.1, 0.09, 0.14, 50, 0.95, "percentile bootstrap"), "share of x")
    state, said = held(odd, odd)
    assert state == State.INCONCLUSIVE and "would have been detected" not in said


def test_an_end_at_the_end_of_the_scale_is_no_margin() -> None:
    """TPR 20 % [0, 40 %] after 0 [0, 5 %]: what may be 0 has not risen."""

    def share(value: float, low: float, high: float) -> Measurement:
        return scored(Interval(value, low, high, 100, 0.95, "by hand"), "share of members")

    assert increase_test.p_value(share(0, 0, 0.05), share(0.2, 0, 0.4)) == 1.0
    assert increase_test.p_value(share(0.6, 0.5, 1.0), share(1.0, 0.99, 1.0)) == 1.0
    assert increase_test.p_value(share(0, 0, 0.05), share(0.2, 0.15, 0.4)) < 1e-4  # type: ignore[operator]
