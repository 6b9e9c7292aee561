"""Tests of Poisson sampling, against enumeration and closed forms."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, chi2

from audit.statistics.poisson_sampling import above_p, dispersion, lag_one_p, rate_p
from audit.statistics.white_noise import normal_p


def test_rate_p_value_is_binomial():
    assert rate_p(10, 10, 0.5) == pytest.approx(2 / 1024)
    assert rate_p(5, 10, 0.5) == 1.0


def test_dispersion_has_its_enumerated_law():
    """Four counts: every outcome and its probability. slack: of a sum that is off the grid."""
    for size, q, slack in ((2, 0.5, 0.0), (4, 0.25, 0.3), (3, 0.2, 0.3)):
        due = size * q
        outcomes = np.array(list(itertools.product(range(size + 1), repeat=4)))
        chances = binom.pmf(outcomes, size, q).prod(axis=1)
        totals = ((outcomes - due) ** 2).sum(axis=1)
        for total, outcome in list(zip(totals, outcomes, strict=True))[:: len(outcomes) // 17]:
            index, p = dispersion(outcome, size, q)
            assert index == pytest.approx(total / (4 * due * (1 - q)))
            at_least, at_most = (
                2 * min(chances[totals <= total + e].sum(), chances[totals >= total - e].sum())
                for e in (1e-9, 1e-9 + slack)
            )
            assert min(1.0, at_least) - 1e-9 <= p <= min(1.0, at_most) + 1e-9


def test_dispersion_of_large_batches_is_nearly_chi_square():
    size, q, steps = 4000, 0.2, 150
    for level in (1e-6, 1e-3, 0.1):
        for total in (chi2(steps).ppf(level), chi2(steps).isf(level)):
            spread = math.sqrt(total / steps * size * q * (1 - q))
            counts = size * q + np.round(spread) * np.resize([1, -1], steps)
            index, p = dispersion(counts.astype(np.int64), size, q)
            near = chi2(steps)
            due = 2 * min(near.cdf(index * steps), near.sf(index * steps))
            assert due * 0.99 < p < due * 1.3


def test_equal_and_extreme_batches_are_improbable():
    assert dispersion(np.full(150, 16), 80, 0.2) == (0.0, 1e-12)
    assert dispersion(np.resize([0, 80], 150), 80, 0.2)[1] == 1e-12


def test_without_sampling_the_counts_are_the_size():
    assert dispersion(np.full(5, 80), 80, 1.0) == (1.0, 1.0)
    assert dispersion(np.array([80, 79]), 80, 1.0) == (1.0, 0.0)


def test_counts_above_mean_are_binomial():
    share = binom.sf(16, 80, 0.2)
    counts = np.array([16] * 90 + [17] * 60)
    assert above_p(counts, 80, 0.2) == pytest.approx(binomtest(60, 150, share).pvalue)
    assert above_p(np.full(150, 16), 80, 0.2) == pytest.approx((1 - share) ** 150, rel=1e-6)


def test_lag_one_of_units_that_alternate():
    """z = −√((T − 1)·m) for each unit; half the units start where the others stop."""
    included = np.resize([[1, 0], [0, 1]], (9, 2))
    assert lag_one_p(included, 0.5) == pytest.approx(2 * normal_p(4.0))


def test_lag_one_of_batches_that_alternate():
    included = np.resize([[1, 1, 1, 1], [0, 0, 0, 0]], (9, 4))
    own, batches = math.sqrt(8 * 4), 4 * math.sqrt(8)
    assert lag_one_p(included, 0.5) == pytest.approx(2 * normal_p(max(own, batches)))
    assert lag_one_p(np.ones((9, 4), dtype=np.int64), 1.0) == 1.0


@pytest.mark.calibration
@pytest.mark.parametrize(("size", "q"), [(80, 0.2), (24, 0.2), (10, 0.05)])
def test_every_test_holds_its_level(size, q):
    random = np.random.default_rng(0)
    ps = np.array(
        [
            (
                dispersion(drawn.sum(axis=1), size, q)[1],
                dispersion(drawn.sum(axis=0), 150, q)[1],
                above_p(drawn.sum(axis=1), size, q),
                lag_one_p(drawn, q),
            )
            for drawn in ((random.random((150, size)) < q).astype(np.int64) for _ in range(2000))
        ]
    )
    for level in (0.05, 0.01):
        assert ((ps < level).mean(axis=0) < level + 4 * math.sqrt(level / 2000)).all()
