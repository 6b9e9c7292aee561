"""Tests for a rise, against enumeration, scipy and tables; and the rise they say they notice."""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.gate import increase_test
from audit.gate.strength import strength
from audit.statistics.interval import Interval
from tests.gate import make

counts = st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def test_the_lady_tasting_tea() -> None:
    """Fisher, The Design of Experiments (1935): 4 of 4 cups right, and 3 of 4."""
    assert increase_test.fisher(0, 4, 4, 4) == pytest.approx(1 / 70)
    assert increase_test.fisher(1, 4, 3, 4) == pytest.approx(17 / 70)


@given(before=counts, after=counts)
def test_fisher_is_what_enumeration_gives(before: tuple[int, int], after: tuple[int, int]) -> None:
    """All ways to place the hits among the trials are equally likely."""
    (k0, n0), (k1, n1) = before, after
    hits = k0 + k1
    if math.comb(n0 + n1, hits) > 5000:
        return
    ways = list(combinations(range(n0 + n1), hits))
    as_many = sum(sum(place >= n0 for place in way) >= k1 for way in ways)
    assert increase_test.fisher(k0, n0, k1, n1) == pytest.approx(as_many / len(ways))


@pytest.mark.parametrize("table", [(2, 100, 12, 100), (0, 200, 9, 150), (490, 500, 499, 500)])
def test_fisher_is_scipys(table: tuple[int, int, int, int]) -> None:
    from scipy.stats import fisher_exact

    k0, n0, k1, n1 = table
    theirs = fisher_exact([[k1, n1 - k1], [k0, n0 - k0]], alternative="greater").pvalue
    assert increase_test.fisher(*table) == pytest.approx(theirs, rel=1e-9)


def test_fisher_is_a_probability_where_fewer_leak() -> None:
    """Two sums of the same weights were 1 + 2e-16, so a better model ended the gate in an error."""
    assert increase_test.fisher(43, 45, 3, 45) == 1.0


def test_fisher_of_many_trials_is_quick_and_exact() -> None:
    assert increase_test.fisher(2_000, 10_000, 2_000, 10_000) == pytest.approx(0.5, abs=0.01)
    assert increase_test.fisher(0, 10_000, 10_000, 10_000) == pytest.approx(0, abs=1e-300)


def test_exact_tests_are_made_of_two_fixed_numbers_only() -> None:
    """A number that one session chose leaves the intervals alone to be compared."""
    fixed, may_stop = ([kind(k, 30) for k in (0, 8)]
                       for kind in (make.rate, make.stopped))  # fmt: skip
    exact = increase_test.fisher(0, 30, 8, 30)
    assert increase_test.p_value(*fixed) == pytest.approx(exact)
    for before, after in (may_stop, (fixed[0], may_stop[1]), (may_stop[0], fixed[1])):
        p = increase_test.p_value(before, after)
        assert p is not None and p > 2 * exact
        assert increase_test.can_detect(before, after, 0.05)
        found = increase_test.detectable(before, after, 0.05, 0.0)
        of_fixed = increase_test.detectable(*fixed, 0.05, 0.0)
        assert found is not None and found != of_fixed


def interval(value: float, low: float, high: float) -> Interval:
    return Interval(value, low, high, 100, 0.95, "by hand")


def rise(before: tuple[float, ...], after: tuple[float, ...]) -> float | None:
    """The p-value of value, low and high, before and now."""
    return increase_test.intervals_p_value(interval(*before), interval(*after))


def test_intervals_give_the_z_test_of_facing_sides() -> None:
    """Two means with standard error 0.1 each, 0.3 apart: z = 0.3 / (0.1 √2)."""
    half = 0.1 * 1.959963985
    p = rise((0.5, 0.5 - half, 0.5 + half), (0.8, 0.8 - half, 0.8 + half))
    assert p == pytest.approx(0.5 * math.erfc(0.3 / (0.1 * math.sqrt(2)) / math.sqrt(2)))
    assert rise((0.5, 0.4, 0.6), (0.8, 0.7, 0.9)) == rise((0.5, 0.0, 0.6), (0.8, 0.7, 1.0))
    for before, after in (((0.5, 0.4, 0.6),) * 2, ((0.5,) * 3, (0.4,) * 3)):
        assert rise(before, after) == 1.0  # no rise
    missing = Interval(0.9, None, None, 1, 0.95, "one record")
    assert increase_test.intervals_p_value(interval(0.1, 0.0, 0.2), missing) is None


def test_an_auc_below_a_half_leaks_as_much_as_one_above() -> None:
    chance = make.area(np.arange(60.0), np.arange(60.0))
    low = make.area(np.arange(60.0), np.arange(60.0) + 50)
    high = make.area(np.arange(60.0) + 50, np.arange(60.0))
    assert low.value < 0.1 < 0.9 < high.value
    assert increase_test.p_value(chance, low) == pytest.approx(increase_test.p_value(chance, high))
    assert increase_test.p_value(chance, high) < 1e-6
    assert increase_test.p_value(high, low) > 0.4


@pytest.mark.parametrize(
    ("value", "ci", "seen"),
    [
        (0.55, (0.4, 0.7), (0.55, 0.4, 0.7)),
        (0.45, (0.3, 0.6), (0.55, 0.4, 0.7)),
        (0.55, (0.25, 0.7), (0.55, 0.25, 0.75)),  # it may be as low as 0.25, and so leak like 0.75
        (0.45, (0.3, 0.75), (0.55, 0.25, 0.75)),
    ],
)
def test_both_signs_of_an_auc_count(
    value: float, ci: tuple[float, float], seen: tuple[float, ...]
) -> None:
    found = make.area([1.0, 2.0], [0.0, 3.0]).model_copy(update={"value": value, "ci": ci})
    one = strength(found)
    assert (one.value, one.low, one.high) == pytest.approx(seen)


@pytest.mark.parametrize(
    ("k", "n0", "n1"), [(0, 100, 100), (2, 100, 100), (2, 100, 300), (40, 49, 49)]
)
def test_the_rise_said_to_be_noticed_is_noticed(k: int, n0: int, n1: int) -> None:
    """Its power by summing the binomial law: at least 80 %, and hardly more."""
    from scipy.stats import binom

    before, after = make.rate(k, n0), make.rate(k, n1)
    rate = increase_test.detectable(before, after, 0.05 / 6, 0.0)
    assert rate is not None
    caught = [increase_test.fisher(k, n0, hits, n1) < 0.05 / 6 for hits in range(n1 + 1)]
    power = sum(binom.pmf(hits, n1, rate) for hits in range(n1 + 1) if caught[hits])
    assert power == pytest.approx(0.8, abs=1e-6)


def test_few_trials_or_no_rise_left_show_nothing() -> None:
    full, few, many = make.rate(49, 49), make.rate(0, 3), make.rate(0, 30)
    assert increase_test.detectable(full, full, 0.05, 0.0) is None
    assert increase_test.can_detect(full, full, 0.05)  # it is the rate that cannot rise
    assert not increase_test.can_detect(few, few, 0.05 / 6)
    assert increase_test.can_detect(many, many, 0.05 / 6)
    four = make.area([1.0, 2.0, 3.0], [0.0])
    assert not increase_test.can_detect(four, four, 0.05)
    assert increase_test.detectable(four, four, 0.05, 0.0) is None


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.5])
def test_many_trials_are_quick(share: float) -> None:
    """A search over halves; 47 s where each of 30,000 ways was counted."""
    n = 100_000
    metric, begun = make.rate(int(share * n), n), time.process_time()
    assert increase_test.can_detect(metric, metric, 0.05)
    found = increase_test.detectable(metric, metric, 0.05, 0.0)
    assert time.process_time() - begun < 1
    assert found is not None
    se = math.sqrt(2 * share * (1 - share) / n)  # 1.645 of it, and 0.84 of one side's for the power
    assert share + 1.5 * se < found < share + 3 * se + 1e-4


def test_very_many_trials_follow_the_normal_law() -> None:
    for n in (10**10, 10**12, 10**15):
        more = n // 2 + round(2 * math.sqrt(2 * n * 0.25))
        expected = 0.5 * math.erfc(2 / math.sqrt(2))
        assert increase_test.fisher(n // 2, n, more, n) == pytest.approx(expected, rel=1e-3)


def test_what_is_too_small_to_fail_is_not_said_to_be_noticed() -> None:
    before = make.rate(100, 10_000)
    small, large = (increase_test.detectable(before, before, 0.05, delta) for delta in (0.0, 0.1))
    assert small is not None and small < 0.02
    assert large is not None and 0.11 < large < 0.12
    wide = make.area(np.arange(60.0), np.arange(60.0))
    assert increase_test.detectable(wide, wide, 0.05, 0.45) == pytest.approx(0.95)
