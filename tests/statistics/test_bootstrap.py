import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics import bootstrap
from audit.statistics.bootstrap import bootstrap_ratio


def stream(seed=0):
    return np.random.default_rng(seed)


def test_value_is_the_ratio_of_sums():
    interval = bootstrap_ratio([2.0, 30.0], [1.0, 10.0], stream())
    assert interval.value == pytest.approx(32 / 11)
    perplexity = bootstrap_ratio([2.0, 30.0], [1.0, 10.0], stream(), transform=np.exp)
    assert perplexity.value == pytest.approx(math.exp(32 / 11))
    assert perplexity.n == 2


def test_bounds_are_quantiles_of_resampled_ratios():
    # Two records of one token: a resample has ratio 0, 1 or 2 with probability 1/4, 1/2, 1/4.
    for confidence, bounds in ((0.95, (0.0, 2.0)), (0.4, (1.0, 1.0))):
        assert bootstrap_ratio([0.0, 2.0], [1.0, 1.0], stream(), confidence).ci == bounds


def test_width_is_that_of_the_normal_approximation():
    x = stream(1).normal(5.0, 1.0, size=2000)
    interval = bootstrap_ratio(x, np.ones(2000), stream())
    assert interval.high - interval.low == pytest.approx(2 * 1.96 / math.sqrt(2000), rel=0.1)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.integers(1, 30)), min_size=2, max_size=12),
    st.integers(0, 5),
)
def test_a_transform_moves_the_bounds(records, seed):
    nll, tokens = np.array(records).T
    plain = bootstrap_ratio(nll, tokens, stream(seed), resamples=50)
    assert plain == bootstrap_ratio(nll, tokens, stream(seed), resamples=50)
    exp = bootstrap_ratio(nll, tokens, stream(seed), resamples=50, transform=np.exp)
    assert exp.ci == pytest.approx((math.exp(plain.low), math.exp(plain.high)))
    extremes = nll / tokens
    assert extremes.min() - 1e-9 <= plain.low <= plain.high <= extremes.max() + 1e-9


def test_resampling_in_blocks_changes_nothing(monkeypatch):
    nll, tokens = np.arange(50.0), np.arange(1.0, 51.0)
    whole = bootstrap_ratio(nll, tokens, stream(), resamples=300)
    monkeypatch.setattr(bootstrap, "_CELLS_AT_ONCE", 170)
    assert bootstrap_ratio(nll, tokens, stream(), resamples=300) == whole


def test_one_record_has_a_value_without_interval():
    interval = bootstrap_ratio([6.0], [3.0], stream())
    assert (interval.value, interval.ci, interval.n) == (2.0, None, 1)
    assert "one record" in interval.method


def test_records_without_tokens_are_left_out():
    interval = bootstrap_ratio([6.0, 0.0, 0.0], [3.0, 0.0, 0.0], stream())
    assert (interval.value, interval.n) == (2.0, 1)
    among = bootstrap_ratio([0.0, 6.0, 0.0, 1.0, 8.0], [0.0, 3.0, 0.0, 1.0, 2.0], stream())
    assert among == bootstrap_ratio([6.0, 1.0, 8.0], [3.0, 1.0, 2.0], stream())
    nothing = bootstrap_ratio([0.0], [0.0], stream())
    assert (nothing.value, nothing.ci, nothing.n) == (None, None, 0)


def test_impossible_tokens_give_infinity():
    interval = bootstrap_ratio([math.inf, 1.0, 1.0], [1.0, 1.0, 1.0], stream(), transform=np.exp)
    assert (interval.value, interval.high) == (math.inf, math.inf)
    assert interval.low == pytest.approx(math.e)
    huge = bootstrap_ratio([1e6, 2e6], [1.0, 1.0], stream(), transform=np.exp)
    assert huge.ci == (math.inf, math.inf)
