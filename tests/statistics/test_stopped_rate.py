"""Intervals that hold at any stopping time: closed forms, coverage under the worst rule, width."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.interval import clopper_pearson
from audit.statistics.stopped_rate import stopped_rate


@pytest.mark.parametrize("n", [1, 10, 69, 1000])
def test_without_hits_the_upper_end_has_a_closed_form(n: int) -> None:
    """1/((n + 1)(1 − p)ⁿ) = 20."""
    p = 1 - (20 * (n + 1)) ** (-1 / n)
    assert stopped_rate(0, n).ci == pytest.approx((0.0, p), abs=1e-9)
    assert stopped_rate(n, n).ci == pytest.approx((1 - p, 1.0), abs=1e-9)


@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.5, 0.999))
def test_hits_and_misses_mirror_and_both_ends_meet_the_equation(
    k: int, misses: int, confidence: float
) -> None:
    n = k + misses
    one, other = stopped_rate(k, n, confidence), stopped_rate(misses, n, confidence)
    assert one.low is not None and one.high is not None
    assert other.ci == pytest.approx((1 - one.high, 1 - one.low), abs=1e-9)
    mixture = math.lgamma(k + 1) + math.lgamma(misses + 1) - math.lgamma(n + 2)
    for end in (one.low, one.high):
        if 0.0 < end < 1.0:
            ratio = mixture - k * math.log(end) - misses * math.log1p(-end)
            assert ratio == pytest.approx(-math.log(1 - confidence), abs=1e-3)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_a_rule_that_stops_when_the_rate_is_refuted_finds_nothing_and_refutes_clopper_pearson(
    rate: float,
) -> None:
    """Stops as soon as either interval of the trials so far leaves the true rate out, up to 120."""
    ends = {
        kind: [kind(k, n).ci for n in range(121) for k in range(n + 1)]
        for kind in (stopped_rate, clopper_pearson)
    }
    outside = {
        kind: np.array([ci is not None and not ci[0] <= rate <= ci[1] for ci in of])
        for kind, of in ends.items()
    }
    paths = (np.random.default_rng(7).random((2000, 120)) < rate).cumsum(axis=1)
    n = np.arange(1, 121)
    place = n * (n + 1) // 2 + paths
    missed = {kind: out[place].any(axis=1).mean() for kind, out in outside.items()}
    assert 0.003 < missed[stopped_rate] <= 0.05
    assert missed[clopper_pearson] > 0.08


def test_it_is_about_twice_as_wide_at_most_as_an_interval_for_a_fixed_number() -> None:
    for k, n in ((0, 100), (5, 100), (50, 100), (300, 1000)):
        one, other = stopped_rate(k, n).ci, clopper_pearson(k, n).ci
        assert one is not None and other is not None
        assert 1 < (one[1] - one[0]) / (other[1] - other[0]) < 2.1


def test_no_trials_say_nothing_and_impossible_counts_are_refused() -> None:
    assert (stopped_rate(0, 0).value, stopped_rate(0, 0).ci) == (None, (0.0, 1.0))
    for k, n, confidence, words in ((2, 1, 0.95, "k"), (-1, 1, 0.95, "k"), (0, 1, 1.0, "conf")):
        with pytest.raises(ValueError, match=words):
            stopped_rate(k, n, confidence)
