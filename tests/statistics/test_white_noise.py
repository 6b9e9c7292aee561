"""Tests of noise, against closed forms of their null laws."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm, spearmanr

from audit.statistics import white_noise


def gaussian(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_scale_has_its_chi_square_law():
    for n, tail in itertools.product((2, 50, 48_000), (1e-9, 0.01, 0.3)):
        for energy in (chi2(n).ppf(tail), chi2(n).isf(tail)):  # both sides
            assert white_noise.scale_p(energy, n, 2 * n) == pytest.approx(2 * tail, rel=1e-5)


def test_a_scaled_chi_square_fits_the_variance():
    """Twice the energy of ten values has mean 20 and variance 80."""
    energy = 2 * chi2(10).isf(0.001)
    assert white_noise.scale_p(energy, 20, 80) == pytest.approx(0.002)


def test_normal_p_is_two_sided():
    assert white_noise.normal_p(1.959963985) == pytest.approx(0.05)
    assert white_noise.normal_p(-1.959963985) == pytest.approx(0.05)
    assert math.isnan(white_noise.normal_p(math.nan))


def test_kurtosis_of_known_laws():
    signs = np.tile([1.0, -1.0], 300)
    assert white_noise.kurtosis(signs) == (1.0, white_noise.normal_p(2 / math.sqrt(24 / 600)))
    even = np.linspace(-1, 1, 200_001)
    assert white_noise.kurtosis(even)[0] == pytest.approx(1.8, rel=1e-4)
    assert white_noise.kurtosis(np.zeros((2, 3))) == (0.0, 0.0)


def test_shape_does_not_depend_on_scale():
    values = gaussian(200, 90)
    assert white_noise.kolmogorov_smirnov(values)[1] > 1e-3
    one, other = (white_noise.kolmogorov_smirnov(values * scale) for scale in (1.0, 7.0))
    np.testing.assert_allclose(one, other, rtol=1e-9)
    assert white_noise.kolmogorov_smirnov(np.zeros(5)) == (1.0, 0.0)


def test_distance_of_all_values_is_scipys():
    values = np.sort(gaussian(500))
    scaled = kstest(values / np.sqrt((values**2).mean()), "norm")
    assert white_noise.kolmogorov_smirnov(values) == (scaled.statistic, scaled.pvalue)


def test_at_most_20000_spread_values_are_read():
    values = gaussian(100_000)
    _, p = white_noise.kolmogorov_smirnov(values)
    spread = kstest(values[::5] / np.sqrt((values**2).mean()), "norm")
    assert p == spread.pvalue
    values[: len(values) // 2] = np.abs(values[: len(values) // 2])
    assert white_noise.kolmogorov_smirnov(values)[1] < 1e-100


def test_angle_of_two_steps_has_its_law():
    """On a circle and on a sphere."""
    for cosine in (0.1, 0.6, 0.99):
        for width, due in ((2, 1 - 2 / math.pi * math.asin(cosine)), (3, 1 - cosine)):
            values = np.zeros((2, width))
            values[0, 0], values[1, :2] = 5.0, (-cosine, math.sqrt(1 - cosine**2))
            worst, p = white_noise.step_correlations(values)
            assert (worst, p) == (pytest.approx(-cosine), pytest.approx(due))


def test_all_pairs_of_steps_count():
    values = np.eye(5)[:, :4]  # the last row is empty
    values[3] = [0, 0.8, 0, 0.6]
    worst, p = white_noise.step_correlations(values)
    single = white_noise.step_correlations(values[[1, 3]])
    assert worst == pytest.approx(0.8)
    assert p == pytest.approx(min(1.0, 10 * single[1]))
    assert white_noise.step_correlations(np.ones((2, 3))) == (pytest.approx(1.0), pytest.approx(0))


def test_lag_one_averages_neighbours():
    values = np.array([[1.0, 0, 0], [0.6, 0.8, 0], [0, 1, 0]])
    found, p = white_noise.lag_one(values)
    assert found == pytest.approx(0.7)  # of 0.6 and 0.8; the first and the last do not count
    assert p == pytest.approx(white_noise.normal_p(0.7 * math.sqrt(3 * 2)))


def test_correlation_is_centred_on_what_is_due():
    one, other = np.full(100, 0.5), np.full(100, 0.4)
    assert white_noise.correlation(one, other) == (
        pytest.approx(0.2),
        pytest.approx(2 * norm.sf(2.0)),
    )
    assert white_noise.correlation(one, other, due=0.2)[1] == pytest.approx(1.0)


def test_rank_correlation_is_spearmans():
    one, other = gaussian(2, 30)
    other = np.round(other + one, 1)
    due = spearmanr(one, other)
    assert white_noise.rank_correlation(one, other) == (
        pytest.approx(due.statistic),
        pytest.approx(due.pvalue),
    )
    assert white_noise.rank_correlation(one, np.ones(30)) == (0.0, 1.0)
