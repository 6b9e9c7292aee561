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
        assert interval.method == f"mean of {n}, t-interval, exact for normal values"


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


@repeats(512, 4096)
def test_what_is_said_of_skewed_values_is_their_coverage(runs: int) -> None:
    normal, low, high = STATED
    found = [100 * of_exponentials(n, runs) for n in ((2, 4, 10) if runs < 4096 else range(2, 11))]
    assert low <= round(min(found)) < round(max(found)) <= high < normal == 95
    assert min(found) < low + 1 and max(found) > high - 1  # not less than what there is, either


def of_shares(runs: np.ndarray, weights: np.ndarray, truth: float) -> float:
    """How often the interval of a row of shares, where it has one, holds the truth."""
    found = [t_interval(row).ci for row in runs.tolist()]
    known = np.array([ci is not None for ci in found])
    held = [ci is not None and ci[0] <= truth + 1e-12 and truth <= ci[1] + 1e-12 for ci in found]
    return float(np.sum(weights * held) / np.sum(weights * known))


@pytest.mark.parametrize(("rate", "coverage"), [(0.01, 0.9974), (0.02, 0.9787), (0.05, 0.9658)])
def test_three_shares_near_zero_are_covered_often_enough(rate: float, coverage: float) -> None:
    """Over all outcomes of three times 100 trials with up to 18 hits each; the figures are sums
    of binomial products over |mean − rate| ≤ 4.3027·s/√3."""
    runs = np.array(list(combinations_with_replacement(range(19), 3)))
    orders = np.array([len(set(permutations(run))) for run in runs.tolist()])
    weights = orders * binom.pmf(runs, 100, rate).prod(axis=1)
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert of_shares(runs / 100, weights, rate) == pytest.approx(coverage, abs=1e-4)


@pytest.mark.calibration
@pytest.mark.parametrize("n", [3, 5, 10])
def test_normal_values_and_shares_near_zero_are_covered_as_often_as_stated(n: int) -> None:
    generator, runs = np.random.default_rng(n), 10_000
    error = math.sqrt(0.95 * 0.05 / runs)
    alike = np.ones(runs)
    normal = of_shares(generator.normal(size=(runs, n)), alike, 0.0)
    assert normal == pytest.approx(STATED[0] / 100, abs=3 * error)
    for rate in (0.01, 0.02, 0.05):
        hits = generator.binomial(100, rate, (runs, n))
        assert of_shares(hits / 100, alike, rate) >= 0.94 - 3 * error


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
