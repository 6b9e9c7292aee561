import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from audit.statistics import blind, bounded_mean, roc
from audit.statistics.bootstrap import bootstrap_ratio
from audit.statistics.clopper_pearson import clopper_pearson, one_sided_lower, one_sided_upper
from audit.statistics.interval import Interval
from audit.statistics.order_statistics import median_interval
from audit.statistics.t_interval import t_interval

counts = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(counts, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_bounds_are_where_tails_equal_the_error(counts, confidence):
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
def test_one_sided_bounds_have_the_whole_error(counts, confidence):
    k, n = counts
    if k > 0:
        low = one_sided_lower(k, n, confidence)
        assert binom.sf(k - 1, n, low) == pytest.approx(1 - confidence, rel=1e-6)
    if k < n:
        high = one_sided_upper(k, n, confidence)
        assert binom.cdf(k, n, high) == pytest.approx(1 - confidence, rel=1e-6)


def test_coverage_is_at_least_nominal():
    rates = (1e-6, 0.003, 0.02, 0.37, 0.5, 0.98, 0.9999)
    for n, rate in itertools.product((1, 7, 60), rates):
        both = high = low = 0.0
        for k in range(n + 1):
            weight = binom.pmf(k, n, rate)
            bounds = clopper_pearson(k, n)
            both += weight * (bounds.low <= rate <= bounds.high)
            high += weight * (rate <= one_sided_upper(k, n))
            low += weight * (one_sided_lower(k, n) <= rate)
        assert min(both, high, low) >= 0.95 - 1e-12, (n, rate)


def test_zero_of_ten_is_the_textbook_interval():
    interval = clopper_pearson(0, 10)
    assert interval.low == 0
    assert interval.high == pytest.approx(1 - 0.025**0.1)  # 0.3085
    assert one_sided_upper(0, 10) == pytest.approx(1 - 0.05**0.1)
    assert one_sided_lower(10, 10) == pytest.approx(0.05**0.1)


def test_no_trials_have_no_value():
    nothing = clopper_pearson(0, 0)
    assert nothing.value is None
    assert nothing.ci == (0.0, 1.0)
    assert nothing.n == 0
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
