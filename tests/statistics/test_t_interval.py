"""Student's interval of a mean: against the t law's table, scipy's interval, and its own rules."""

from __future__ import annotations

import math
import re
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit
from scipy.stats import binom, gamma, qmc

from audit.statistics.t_interval import COVERAGE, t_interval
from tests.simulations import repeats

TABLE = {  # degrees of freedom: t of 90 %, 95 % and 99 %, two-sided
    1: (6.3138, 12.7062, 63.6567),
    2: (2.9200, 4.3027, 9.9248),
    4: (2.1318, 2.7764, 4.6041),
    9: (1.8331, 2.2622, 3.2498),
}


def test_interval_is_that_of_the_table() -> None:
    """n values of which half are 1 above and half 1 below (and one at) the mean 10."""
    for degrees, row in TABLE.items():
        n = degrees + 1
        values = [10.0 + (-1) ** i for i in range(n - n % 2)] + [10.0] * (n % 2)
        error = math.sqrt((n - n % 2) / degrees / n)  # of the mean: the spread over n - 1, not n
        for confidence, t in zip((0.9, 0.95, 0.99), row, strict=True):
            interval = t_interval(values, confidence)
            assert interval.value == 10
            assert interval.ci == pytest.approx((10 - t * error, 10 + t * error), abs=2e-4)
            assert (interval.n, interval.confidence) == (n, confidence)
            assert interval.method == f"mean of {n}, t-interval, exact for normal values"
    assert t_interval([1.0, 3.0]) == t_interval([1.0, 3.0], 0.95)


@given(
    st.lists(st.floats(-1e3, 1e3).map(lambda v: round(v, 3)), min_size=2, max_size=12),
    st.sampled_from([0.5, 0.9, 0.999]),
)
@settings(max_examples=30)
def test_interval_is_the_mean_and_error_times_t(values: list[float], confidence: float) -> None:
    assume(min(values) < max(values))
    n = len(values)
    mean = math.fsum(values) / n
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    t = stdtrit(n - 1, (1 + confidence) / 2)
    expected = (mean - t * error, mean + t * error)
    assert t_interval(values, confidence).ci == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_two_normal_values_are_covered_exactly() -> None:
    """Two normal values (x, y) have a uniform angle, and whether their interval holds the true
    mean 0 depends on the angle alone: the share of angles for which it does is the confidence."""
    angles = (np.arange(400) + 0.5) / 400 * math.pi
    low, high = np.transpose([t_interval([math.cos(a), math.sin(a)], 0.9).ci for a in angles])
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.9, abs=1 / 200)


STATED = [int(number) for number in re.findall(r"(\d+)", COVERAGE)]  # normal, and skewed: from, to


def of_exponentials(n: int, points: int) -> float:
    """How often the interval of n exponential values holds their mean 1.

    Their sum S is Gamma(n), independent of their shares of it, and the interval is S times the
    interval of the shares: so the coverage is a mean over shares alone, here over Sobol points.
    """
    values = -np.log1p(-qmc.Sobol(n, seed=0).random(points))
    shares = values / values.sum(axis=1, keepdims=True)
    low, high = np.transpose([t_interval(row).ci for row in shares.tolist()])
    least, most = 1 / high, np.where(low > 0, 1 / np.where(low > 0, low, 1), math.inf)
    return float(np.mean(gamma.cdf(most, n) - gamma.cdf(least, n)))


@repeats(256, 4096)
def test_stated_coverage_of_skewed_values_is_true(runs: int) -> None:
    normal, low, high = STATED
    found = [100 * of_exponentials(n, runs) for n in ((2, 4, 10) if runs < 4096 else range(2, 11))]
    assert low <= round(min(found)) < round(max(found)) <= high < normal == 95
    assert min(found) < low + 1 and max(found) > high - 1  # not less than what there is, either


def covered(rows: np.ndarray, truth: float) -> np.ndarray:
    """Whether the interval of each row holds the truth; NaN where there is no interval."""
    ends = [t_interval(row).ci or (math.nan, math.nan) for row in rows.tolist()]
    low, high = np.transpose(ends)
    return np.where(np.isnan(low), math.nan, (low <= truth + 1e-12) & (truth <= high + 1e-12))


def test_shares_near_zero_have_their_exact_coverage() -> None:
    """Over all outcomes of three times 100 trials with up to 12 hits each; the figures are sums
    of binomial products over |mean − rate| ≤ 4.3027·s/√3."""
    runs = np.array(list(combinations_with_replacement(range(13), 3)))
    orders = np.array([len(set(permutations(run))) for run in runs.tolist()])
    for rate, coverage in ((0.01, 0.9974), (0.02, 0.9787)):
        weights = orders * binom.pmf(runs, 100, rate).prod(axis=1)
        assert weights.sum() == pytest.approx(1, abs=1e-5)
        held = covered(runs / 100, rate)
        known = ~np.isnan(held)
        share = weights[known] @ held[known] / weights[known].sum()
        assert share == pytest.approx(coverage, abs=1e-4)


def test_unknown_spread_gives_no_interval() -> None:
    for values in ([5.0], [5.0, 5.0], [0.1] * 7, [math.inf], [5.0, math.inf]):
        interval = t_interval(values)
        assert interval.value == pytest.approx(sum(values) / len(values))
        assert (interval.low, interval.high, interval.n) == (None, None, len(values))
        assert interval.method == f"mean of {len(values)}, no interval"
