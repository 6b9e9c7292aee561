import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from audit.statistics import blind, bounded_mean, roc
from audit.statistics.bootstrap import bootstrap_ratio
from audit.statistics.interval import (
    Interval,
    clopper_pearson,
    one_sided_lower,
    one_sided_upper,
)
from audit.statistics.order_statistics import median_interval
from audit.statistics.t_interval import t_interval

counts = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_bounds_are_where_the_binomial_tails_equal_the_error(counts, confidence):
    k, n = counts
    interval = clopper_pearson(k, n, confidence)
    tail = (1 - confidence) / 2
    assert 0 <= interval.low <= k / n <= interval.high <= 1
    assert interval.value == k / n
    if k > 0:
        assert binom.sf(k - 1, n, interval.low) == pytest.approx(tail, rel=1e-6)
    else:
        assert interval.low == 0
    if k < n:
        assert binom.cdf(k, n, interval.high) == pytest.approx(tail, rel=1e-6)
    else:
        assert interval.high == 1


@given(counts, st.sampled_from([0.5, 0.9, 0.95]))
def test_one_sided_bounds_put_the_whole_error_on_one_side(counts, confidence):
    k, n = counts
    if k > 0:
        low = one_sided_lower(k, n, confidence)
        assert binom.sf(k - 1, n, low) == pytest.approx(1 - confidence, rel=1e-6)
    if k < n:
        high = one_sided_upper(k, n, confidence)
        assert binom.cdf(k, n, high) == pytest.approx(1 - confidence, rel=1e-6)


@pytest.mark.parametrize("n", [1, 7, 60])
@pytest.mark.parametrize("rate", [1e-6, 0.003, 0.02, 0.37, 0.5, 0.98, 0.9999])
def test_coverage_is_at_least_nominal_even_for_lopsided_rates(n, rate):
    both = high = low = 0.0
    for k in range(n + 1):
        weight = binom.pmf(k, n, rate)
        bounds = clopper_pearson(k, n)
        both += weight * (bounds.low <= rate <= bounds.high)
        high += weight * (rate <= one_sided_upper(k, n))
        low += weight * (one_sided_lower(k, n) <= rate)
    assert min(both, high, low) >= 0.95 - 1e-12


def test_the_textbook_zero_of_ten():
    interval = clopper_pearson(0, 10)
    assert interval.low == 0
    assert interval.high == pytest.approx(1 - 0.025**0.1)  # 0.3085
    assert one_sided_upper(0, 10) == pytest.approx(1 - 0.05**0.1)
    assert one_sided_lower(10, 10) == pytest.approx(0.05**0.1)


@given(counts, st.integers(1, 50))
def test_more_hits_raise_and_more_trials_without_hits_lower_the_bounds(counts, more):
    k, n = counts
    now = clopper_pearson(k, n)
    emptier = clopper_pearson(k, n + more)
    fuller = clopper_pearson(k + more, n + more)
    assert emptier.low <= now.low and emptier.high <= now.high
    assert fuller.low >= now.low and fuller.high >= now.high


def test_no_trials_say_nothing():
    nothing = clopper_pearson(0, 0)
    assert nothing.value is None
    assert nothing.ci == (0.0, 1.0)
    assert nothing.n == 0


@pytest.mark.parametrize(
    "k, n, confidence", [(-1, 5, 0.95), (6, 5, 0.95), (1, 5, 0.0), (1, 5, 1.0), (1, 5, math.nan)]
)
@pytest.mark.parametrize("method", [clopper_pearson, one_sided_upper, one_sided_lower])
def test_bad_counts_are_refused(method, k, n, confidence):
    with pytest.raises(ValueError):
        method(k, n, confidence)


def test_an_interval_refuses_nan_half_bounds_and_reversed_bounds():
    with pytest.raises(ValueError, match="NaN"):
        Interval(math.nan, 0.0, 1.0, 3, 0.95, "x")
    with pytest.raises(ValueError, match="two bounds"):
        Interval(0.5, 0.0, None, 3, 0.95, "x")
    with pytest.raises(ValueError, match="reversed"):
        Interval(0.5, 1.0, 0.0, 3, 0.95, "x")
    assert Interval(0.5, None, None, 1, 0.95, "x").ci is None


def test_makers_name_the_kind():
    few, scores, stream = np.array([0.4]), np.linspace(0, 1, 40), np.random.default_rng(0)
    kinds = {
        "clopper_pearson": [clopper_pearson(1, 9), roc.refined_accuracy(scores, scores, stream)],
        "clopper_pearson_at_quantile": [roc.tpr_at_fpr(scores, scores, 0.1)],
        "bounded_mean": [bounded_mean.mean_interval(scores), roc.auc(scores, scores)],
        "order_statistics": [median_interval(scores)],
        "dkw_band": [roc.top_half_accuracy(scores, scores)],
        "bootstrap": [bootstrap_ratio(scores, scores + 1, stream)],
        "permutation": [blind.blind_auc(["a", "b"], ["c", "d"], stream)[0]],
        "t": [t_interval([1.0, 2.0])],
        "none": [
            bounded_mean.mean_interval([]),
            median_interval(few),
            bootstrap_ratio(few, few, stream),
            roc.auc(few, []),
            t_interval([1.0]),
        ],
    }
    for kind, intervals in kinds.items():
        assert [interval.kind for interval in intervals] == [kind] * len(intervals)
        assert all((interval.ci is None) == (kind == "none") for interval in intervals)
