"""Intervals that hold at any stopping time: closed forms, coverage under the worst rule, width."""

from __future__ import annotations

import functools
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaln, xlog1py, xlogy

from audit.statistics.clopper_pearson import clopper_pearson
from audit.statistics.stopped_rate import Series, stopped_rate
from tests.simulations import repeats


@functools.cache
def ends(*counts: tuple[int, ...], confidence: float = 0.95) -> tuple[float, float]:
    ci = stopped_rate([Series(*one) for one in counts], confidence).ci
    assert ci is not None
    return ci


def test_ends_without_hits_have_a_closed_form() -> None:
    """The mixture gives n misses with probability ∏ (i − ¾)/(i − ½), a twentieth of it (1 − p)ⁿ."""
    for n in (1, 10, 69, 1000):
        p = 1 - (math.prod((i - 0.75) / (i - 0.5) for i in range(1, n + 1)) / 20) ** (1 / n)
        assert ends((0, n)) == pytest.approx((0.0, p), abs=1e-9)
        assert ends((n, n)) == pytest.approx((1 - p, 1.0), abs=1e-9)


def test_equal_series_are_nearly_as_one() -> None:
    """The likeliest rates of a mean are then equal; that they may be unlike costs log 2 at most."""
    few, whole = ends((0, 50), (0, 50), (0, 50)), ends((0, 150))
    assert whole[1] < few[1] < 1 - (1 - whole[1]) * 2 ** (-1 / 150)


def test_unlike_series_narrow_with_root_of_n() -> None:
    """0 of n and half of n: the mean's interval shrinks with the root of n."""
    for n in (100, 10_000, 1_000_000):
        low, high = ends((0, n), (n // 2, n))
        assert 1.5 < (high - low) * math.sqrt(n) < 3


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.5, 0.999))
def test_both_ends_meet_the_equation(k: int, misses: int, confidence: float) -> None:
    n = k + misses
    one, other = ends((k, n), confidence=confidence), ends((misses, n), confidence=confidence)
    assert other == pytest.approx((1 - one[1], 1 - one[0]), abs=1e-9)
    mixture = betaln(k + 0.25, misses + 0.25) - betaln(0.25, 0.25)
    for end in one:
        if 0.0 < end < 1.0:
            ratio = mixture - k * math.log(end) - misses * math.log1p(-end)
            assert ratio == pytest.approx(-math.log(1 - confidence), abs=1e-3)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=2))
def test_two_series_have_ends_of_a_search(
    counts: list[tuple[int, int]],
) -> None:
    """Every pair of rates whose likelihood is above a twentieth of the mixture's is allowed."""
    series = [(k, k + misses) for k, misses in counts]
    grid = np.linspace(0, 1, 1001)
    one, other = (xlogy(k, grid) + xlog1py(n - k, -grid) for k, n in series)
    hits, trials = (sum(column) for column in zip(*series, strict=True))
    own, pooled = (
        sum(betaln(k + 0.25, n - k + 0.25) - betaln(0.25, 0.25) for k, n in of)
        for of in (series, [(hits, trials)])
    )
    mixture = np.logaddexp(own, pooled) - math.log(2)
    allowed = one[:, None] + other > mixture + math.log(0.05)
    means = ((grid[:, None] + grid) / 2)[allowed]
    low, high = ends(*series)
    assert low <= means.min() + 1e-9 and means.min() - low < 2e-3
    assert high >= means.max() - 1e-9 and high - means.max() < 2e-3


def test_one_series_ignores_a_cut_trial() -> None:
    """Its interval holds after all whole trials at once."""
    assert ends((3, 9, True)) == ends((3, 9))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.booleans()), min_size=2,
                max_size=4))  # fmt: skip
def test_cut_trials_count_in_all_ways(
    counts: list[tuple[int, int, bool]],
) -> None:
    series = [(k, k + misses, cut) for k, misses, cut in counts]
    ways = product(*([(k, n + 1), (k + 1, n + 1)] if cut else [(k, n)] for k, n, cut in series))
    lows, highs = zip(*(ends(*way) for way in ways), strict=True)
    assert ends(*series) == pytest.approx((min(lows), max(highs)), abs=1e-9)
    assert stopped_rate([Series(*one) for one in series]).n == sum(n for _, n, _ in series)


def test_after_twelve_cuts_rates_are_free() -> None:
    low, high = ends(*[(0, 100, True)] * 12, (0, 100))
    assert high == ends(*[(0, 100, True)] * 12, (0, 0))[1] > 1 / 13
    assert low == 0.0


def test_series_without_trials_has_any_rate() -> None:
    low, high = ends((2, 40))
    assert ends((2, 40), (0, 0)) == pytest.approx((low / 2, (high + 1) / 2), abs=1e-9)
    assert stopped_rate([Series(2, 40), Series(0, 0)]).value == 0.05


def missed(interval: Any, paths: int, n: int, rates: tuple[float, ...], every: int = 1) -> float:
    """Computes the share of paths of n trials on which an interval ever leaves out the mean rate.

    rates: of one trial after the other, in turn; looks: after each `every` trials.
    """
    draw, rate, out = np.random.default_rng(7), sum(rates) / len(rates), 0
    hits = (draw.random((paths, n)) < np.tile(rates, n // len(rates))).cumsum(axis=1)
    for path in hits.tolist():
        looks = (interval((k, n)) for n, k in enumerate(path, 1) if n % every == 0)
        out += any(not low <= rate <= high for low, high in looks)
    return out / paths


@repeats(100, 1000)
def test_stopping_when_refuted_errs_at_level(runs: int) -> None:
    """Clopper and Pearson's interval, for a fixed number of trials, is refuted too often."""
    fixed = functools.cache(lambda one: clopper_pearson(*one).ci)
    for rate in (0.1, 0.5):
        assert missed(ends, runs, 24, (rate,)) <= 0.05
        assert missed(fixed, runs, 60, (rate,)) > 0.07


@pytest.mark.calibration
@pytest.mark.parametrize("rates", [(0.0, 0.2), (0.3, 0.9)])
def test_alternating_rates_are_covered_in_their_mean(rates: tuple[float, float]) -> None:
    """As the generations after two prompts do."""
    assert missed(ends, 1000, 40, rates, every=2) <= 0.05


@pytest.mark.calibration
def test_stopped_series_of_unlike_rates_cover_their_mean() -> None:
    """The second begins when the first stops: after its first hit, or after 40 trials."""
    rates, n = (0.02, 0.3), 40
    rng, out = np.random.default_rng(11), 0
    for _ in range(200):
        first = rng.random(n) < rates[0]
        taken = int(first.argmax()) + 1 if first.any() else n
        second = (rng.random(n) < rates[1]).cumsum()
        one = (int(first[:taken].sum()), taken)
        between = (ends(one, (int(second[i]), i + 1)) for i in range(0, n, 8))
        out += any(not low <= sum(rates) / 2 <= high for low, high in between)
    assert out <= 10


def test_interval_is_at_most_twice_a_fixed_one() -> None:
    for k, n in ((0, 100), (5, 100), (50, 100), (300, 1000)):
        one, other = ends((k, n)), clopper_pearson(k, n).ci
        assert other is not None
        assert 1 < (one[1] - one[0]) / (other[1] - other[0]) < 2.1


def test_no_trials_have_no_value() -> None:
    nothing = stopped_rate([Series(0, 0)])
    assert (nothing.value, nothing.ci) == (None, (0.0, 1.0))
