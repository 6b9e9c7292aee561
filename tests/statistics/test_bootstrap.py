import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics import bootstrap
from audit.statistics.bootstrap import bootstrap_ratio


def stream(seed=0):
    return np.random.default_rng(seed)


def test_value_is_the_ratio_of_sums_not_the_mean_of_ratios():
    interval = bootstrap_ratio([2.0, 30.0], [1.0, 10.0], stream())
    assert interval.value == pytest.approx(32 / 11)
    perplexity = bootstrap_ratio([2.0, 30.0], [1.0, 10.0], stream(), transform=np.exp)
    assert perplexity.value == pytest.approx(math.exp(32 / 11))
    assert perplexity.n == 2


def test_bounds_are_the_quantiles_of_resampled_ratios():
    # Two records of one token: a resample has ratio 0, 1 or 2 with probability 1/4, 1/2, 1/4.
    wide = bootstrap_ratio([0.0, 2.0], [1.0, 1.0], stream(), confidence=0.95)
    middle = bootstrap_ratio([0.0, 2.0], [1.0, 1.0], stream(), confidence=0.4)
    assert wide.ci == (0.0, 2.0)
    assert middle.ci == (1.0, 1.0)


def test_coverage_is_near_nominal():
    truth, hits, repeats = 3.0, 0, 600
    for seed in range(repeats):
        draw = stream(seed)
        tokens = draw.integers(5, 40, size=120).astype(float)
        nll = draw.gamma(tokens, truth)  # mean 3 nats a token
        interval = bootstrap_ratio(nll, tokens, draw, confidence=0.9, resamples=400)
        hits += interval.low <= truth <= interval.high
    noise = 3 * math.sqrt(0.9 * 0.1 / repeats)
    assert 0.9 - 0.015 - noise <= hits / repeats <= 0.9 + noise


def test_width_matches_the_normal_approximation():
    draw = stream(1)
    x = draw.normal(5.0, 1.0, size=2000)
    interval = bootstrap_ratio(x, np.ones(2000), draw)
    assert interval.high - interval.low == pytest.approx(2 * 1.96 / math.sqrt(2000), rel=0.1)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.integers(1, 30)), min_size=2, max_size=12),
    st.integers(0, 5),
)
def test_a_transform_moves_the_bounds_with_it_and_the_seed_decides(records, seed):
    nll, tokens = np.array(records).T
    plain = bootstrap_ratio(nll, tokens, stream(seed), resamples=50)
    again = bootstrap_ratio(nll, tokens, stream(seed), resamples=50)
    exp = bootstrap_ratio(nll, tokens, stream(seed), resamples=50, transform=np.exp)
    assert plain == again
    assert exp.ci == pytest.approx((math.exp(plain.low), math.exp(plain.high)))
    extremes = nll / tokens
    assert extremes.min() - 1e-9 <= plain.low <= plain.high <= extremes.max() + 1e-9


def test_blocks_of_resamples_do_not_change_the_result(monkeypatch):
    nll, tokens = np.arange(50.0), np.arange(1.0, 51.0)
    whole = bootstrap_ratio(nll, tokens, stream(), resamples=300)
    monkeypatch.setattr(bootstrap, "_CELLS_AT_ONCE", 170)
    assert bootstrap_ratio(nll, tokens, stream(), resamples=300) == whole


def test_one_record_has_a_value_and_no_interval():
    interval = bootstrap_ratio([6.0], [3.0], stream())
    assert (interval.value, interval.ci, interval.n) == (2.0, None, 1)
    assert "one record" in interval.method


def test_records_with_nothing_counted_are_left_out():
    interval = bootstrap_ratio([6.0, 0.0, 0.0], [3.0, 0.0, 0.0], stream())
    assert (interval.value, interval.n) == (2.0, 1)
    among = bootstrap_ratio([0.0, 6.0, 0.0, 1.0, 8.0], [0.0, 3.0, 0.0, 1.0, 2.0], stream())
    assert among == bootstrap_ratio([6.0, 1.0, 8.0], [3.0, 1.0, 2.0], stream())
    nothing = bootstrap_ratio([0.0], [0.0], stream())
    assert (nothing.value, nothing.ci, nothing.n) == (None, None, 0)


def test_impossible_tokens_give_infinity_and_never_nan():
    interval = bootstrap_ratio([math.inf, 1.0, 1.0], [1.0, 1.0, 1.0], stream(), transform=np.exp)
    assert interval.value == math.inf
    assert interval.low == pytest.approx(math.e)
    assert interval.high == math.inf
    huge = bootstrap_ratio([1e6, 2e6], [1.0, 1.0], stream(), transform=np.exp)
    assert huge.ci == (math.inf, math.inf)


@pytest.mark.parametrize(
    "above, below",
    [
        ([1.0], [1.0, 2.0]),
        ([[1.0]], [[1.0]]),
        ([math.nan], [1.0]),
        ([-math.inf], [1.0]),
        ([1.0], [-1.0]),
        ([1.0], [math.inf]),
        ([1.0, 1.0], [1.0, 0.0]),
    ],
)
def test_bad_records_are_refused(above, below):
    with pytest.raises(ValueError):
        bootstrap_ratio(above, below, stream())


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_ratio([1.0], [1.0], stream(), confidence=1.0)
    with pytest.raises(ValueError, match="resample"):
        bootstrap_ratio([1.0], [1.0], stream(), resamples=0)
