"""Student's interval of a mean: against the t law's table, scipy's interval, and its own rules."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

from audit.statistics.t_interval import t_interval

TABLE = {  # degrees of freedom: t of 90 %, 95 % and 99 %, two-sided
    1: (6.3138, 12.7062, 63.6567),
    2: (2.9200, 4.3027, 9.9248),
    4: (2.1318, 2.7764, 4.6041),
    9: (1.8331, 2.2622, 3.2498),
}


@pytest.mark.parametrize("degrees", TABLE)
def test_it_is_the_table(degrees: int) -> None:
    """n values of which half are 1 above and half 1 below (and one at) the mean 10."""
    n = degrees + 1
    values = [10.0 + (-1) ** i for i in range(n - n % 2)] + [10.0] * (n % 2)
    error = math.sqrt((n - n % 2) / degrees / n)  # of the mean: the spread over n - 1, not n
    for confidence, t in zip((0.9, 0.95, 0.99), TABLE[degrees], strict=True):
        interval = t_interval(values, confidence)
        assert interval.value == 10
        assert interval.ci == pytest.approx((10 - t * error, 10 + t * error), abs=2e-4)
        assert (interval.n, interval.confidence) == (n, confidence)
        assert interval.method == f"mean of {n}, t-interval"


def test_unless_said_otherwise_it_is_95_percent() -> None:
    assert t_interval([1.0, 3.0]) == t_interval([1.0, 3.0], 0.95)
    assert t_interval([1.0, 3.0]).ci == pytest.approx((2 - 12.7062, 2 + 12.7062), abs=1e-4)


@given(
    st.lists(st.floats(-1e3, 1e3).map(lambda v: round(v, 3)), min_size=2, max_size=12),
    st.sampled_from([0.5, 0.9, 0.999]),
)
@settings(max_examples=30)
def test_it_is_the_mean_and_its_error_times_t(values: list[float], confidence: float) -> None:
    assume(min(values) < max(values))
    n = len(values)
    mean = math.fsum(values) / n
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    t = stdtrit(n - 1, (1 + confidence) / 2)
    expected = (mean - t * error, mean + t * error)
    assert t_interval(values, confidence).ci == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_it_covers_as_often_as_it_says() -> None:
    """Two normal values (x, y) have a uniform angle, and whether their interval holds the true
    mean 0 depends on the angle alone: the share of angles for which it does is the confidence."""
    angles = (np.arange(400) + 0.5) / 400 * math.pi
    low, high = np.transpose([t_interval([math.cos(a), math.sin(a)], 0.9).ci for a in angles])
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.9, abs=1 / 200)


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0], [0.1] * 7, [math.inf], [5.0, math.inf]])
def test_a_spread_that_is_unknown_gives_no_interval(values: list[float]) -> None:
    interval = t_interval(values)
    assert interval.value == pytest.approx(sum(values) / len(values))
    assert (interval.low, interval.high, interval.n) == (None, None, len(values))
    assert interval.method == f"mean of {len(values)}, no interval"


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.nan], [1.0, -math.inf]])
def test_what_has_no_mean_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="values"):
        t_interval(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.1, 1.1, math.nan])
def test_confidence_lies_between_0_and_1(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        t_interval([1.0, 2.0], confidence)
