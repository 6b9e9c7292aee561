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

from audit.statistics.interval import clopper_pearson
from audit.statistics.stopped_rate import Series, stopped_rate

SETTLED = settings(deadline=None)


@functools.cache
def ends(*counts: tuple[int, ...], confidence: float = 0.95) -> tuple[float, float]:
    ci = stopped_rate([Series(*one) for one in counts], confidence).ci
    assert ci is not None
    return ci


@pytest.mark.parametrize("n", [1, 10, 69, 1000])
def test_without_hits_the_upper_end_has_a_closed_form(n: int) -> None:
    """The mixture gives n misses with probability ∏ (i − ¾)/(i − ½), a twentieth of it (1 − p)ⁿ."""
    p = 1 - (math.prod((i - 0.75) / (i - 0.5) for i in range(1, n + 1)) / 20) ** (1 / n)
    assert ends((0, n)) == pytest.approx((0.0, p), abs=1e-9)
    assert ends((n, n)) == pytest.approx((1 - p, 1.0), abs=1e-9)


def test_equal_series_without_hits_are_nearly_as_one() -> None:
    """The likeliest rates of a mean are then equal; that they may be unlike costs log 2 at most."""
    few, whole = ends((0, 50), (0, 50), (0, 50)), ends((0, 150))
    assert whole[1] < few[1] < 1 - (1 - whole[1]) * 2 ** (-1 / 150)


def test_unlike_series_are_as_narrow_as_their_lengths_allow() -> None:
    """0 of n and half of n: the mean's interval shrinks with the root of n."""
    for n in (100, 10_000, 1_000_000):
        low, high = ends((0, n), (n // 2, n))
        assert 1.5 < (high - low) * math.sqrt(n) < 3


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.5, 0.999))
def test_hits_and_misses_mirror_and_both_ends_meet_the_equation(
    k: int, misses: int, confidence: float
) -> None:
    n = k + misses
    one, other = ends((k, n), confidence=confidence), ends((misses, n), confidence=confidence)
    assert other == pytest.approx((1 - one[1], 1 - one[0]), abs=1e-9)
    mixture = betaln(k + 0.25, misses + 0.25) - betaln(0.25, 0.25)
    for end in one:
        if 0.0 < end < 1.0:
            ratio = mixture - k * math.log(end) - misses * math.log1p(-end)
            assert ratio == pytest.approx(-math.log(1 - confidence), abs=1e-3)


@SETTLED
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=2, max_size=2))
def test_the_ends_of_two_series_are_those_of_a_search_over_both_rates(
    counts: list[tuple[int, int]],
) -> None:
    """Every pair of rates whose likelihood is above a twentieth of the mixture's is allowed."""
    series = [(k, k + misses) for k, misses in counts]
    grid = np.linspace(0, 1, 1001)
    one, other = (xlogy(k, grid) + xlog1py(n - k, -grid) for k, n in series)
    hits, trials = (sum(column) for column in zip(*series, strict=True))
    own, pooled = (sum(betaln(k + 0.25, n - k + 0.25) - betaln(0.25, 0.25) for k, n in of)
                   for of in (series, [(hits, trials)]))  # fmt: skip
    mixture = np.logaddexp(own, pooled) - math.log(2)
    allowed = one[:, None] + other > mixture + math.log(0.05)
    means = ((grid[:, None] + grid) / 2)[allowed]
    low, high = ends(*series)
    assert low <= means.min() + 1e-9 and means.min() - low < 2e-3
    assert high >= means.max() - 1e-9 and high - means.max() < 2e-3


def test_one_series_needs_no_trial_that_was_cut() -> None:
    """Its interval holds after all whole trials at once."""
    assert ends((3, 9, True)) == ends((3, 9))


@SETTLED
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.booleans()), min_size=2,
                max_size=4))  # fmt: skip
def test_trials_that_were_cut_widen_the_interval_to_all_that_they_might_have_been(
    counts: list[tuple[int, int, bool]],
) -> None:
    series = [(k, k + misses, cut) for k, misses, cut in counts]
    ways = product(*([(k, n + 1), (k + 1, n + 1)] if cut else [(k, n)] for k, n, cut in series))
    lows, highs = zip(*(ends(*way) for way in ways), strict=True)
    assert ends(*series) == pytest.approx((min(lows), max(highs)), abs=1e-9)
    assert stopped_rate([Series(*one) for one in series]).n == sum(n for _, n, _ in series)


def test_after_twelve_series_that_were_cut_the_rest_may_have_any_rate() -> None:
    low, high = ends(*[(0, 100, True)] * 12, (0, 100))
    assert high == ends(*[(0, 100, True)] * 12, (0, 0))[1] > 1 / 13
    assert low == 0.0


def test_a_series_without_trials_may_have_any_rate() -> None:
    low, high = ends((2, 40))
    assert ends((2, 40), (0, 0)) == pytest.approx((low / 2, (high + 1) / 2), abs=1e-9)
    assert stopped_rate([Series(2, 40), Series(0, 0)]).value == 0.05


def missed(interval: Any, paths: np.ndarray, rate: float, pairs: bool = False) -> float:
    """Computes the share of paths of hits on which an interval ever leaves out the rate.

    pairs: whether one looks after each two trials only.
    """
    out = 0
    for hits in paths.cumsum(axis=1).tolist():
        looks = (interval((k, n)) for n, k in enumerate(hits, 1) if not pairs or n % 2 == 0)
        out += any(not low <= rate <= high for low, high in looks)
    return out / len(paths)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_rule_that_stops_when_the_rate_is_refuted_finds_nothing_and_refutes_clopper_pearson(
    rate: float,
) -> None:
    """Stops as soon as the interval of the trials so far leaves the true rate out, up to 60."""
    paths = np.random.default_rng(7).random((1000, 60)) < rate
    assert 0.002 < missed(ends, paths, rate) <= 0.05
    fixed = functools.cache(lambda one: clopper_pearson(*one).ci)
    assert missed(fixed, paths, rate) > 0.07


@pytest.mark.parametrize("rates", [(0.0, 0.2), (0.3, 0.9)])
def test_rates_that_alternate_are_covered_in_their_mean(rates: tuple[float, float]) -> None:
    """As the generations after two prompts do."""
    paths = np.random.default_rng(5).random((1000, 40)) < np.tile(rates, 20)
    assert missed(ends, paths, sum(rates) / 2, pairs=True) <= 0.05


def test_series_of_unlike_rates_that_stop_when_refuted_cover_their_mean() -> None:
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


def test_it_is_at_most_about_twice_as_wide_as_an_interval_for_a_fixed_number() -> None:
    for k, n in ((0, 100), (5, 100), (50, 100), (300, 1000)):
        one, other = ends((k, n)), clopper_pearson(k, n).ci
        assert other is not None
        assert 1 < (one[1] - one[0]) / (other[1] - other[0]) < 2.1


def test_no_trials_say_nothing_and_impossible_counts_are_refused() -> None:
    nothing = stopped_rate([Series(0, 0)])
    assert (nothing.value, nothing.ci) == (None, (0.0, 1.0))
    for counts, words in (((2, 1), "k"), ((-1, 1), "k"), ((0, -1), "k")):
        with pytest.raises(ValueError, match=words):
            Series(*counts)
    with pytest.raises(ValueError, match="conf"):
        stopped_rate([Series(0, 1)], 1.0)
    with pytest.raises(ValueError, match="series"):
        stopped_rate([])
