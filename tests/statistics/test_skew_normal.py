"""The skew-normal fit: its far tail to many digits, what it calls a good fit, and exposures."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import norm, skewnorm

from audit.statistics.skew_normal import SkewNormal, exposure_bits, fit, log_cdf
from tests.oracles.skew_normal import LOG_CDF

POINTS = [-20.0, -6.0, -1.0, -0.02, 0.01, 0.4, 2.0]


def precise(z: float, shape: float) -> float:
    with mpmath.workdps(40):
        cuts = [60, 20, 8, 4, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.004, 0.001, 0.0002, 0]
        density = lambda t: 2 * mpmath.npdf(t) * mpmath.ncdf(shape * t)  # noqa: E731
        return float(mpmath.log(mpmath.quad(density, [mpmath.mpf(z) - cut for cut in cuts])))


def test_log_cdf_has_many_digits_in_the_tail():
    """Where scipy underflows."""
    for shape, expected in LOG_CDF.items():
        found = log_cdf(np.array(POINTS), shape)
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-14), shape


@pytest.mark.calibration
@pytest.mark.parametrize("shape", LOG_CDF)
def test_the_table_is_the_integral(shape):
    assert LOG_CDF[shape] == pytest.approx([precise(z, shape) for z in POINTS], rel=1e-12)


def test_log_cdf_in_the_middle_is_scipys():
    z = np.linspace(-1.5, 5, 60)
    for shape in (-3.0, -0.5, 0.0, 2.0, 10.0):
        assert np.exp(log_cdf(z, shape)) == pytest.approx(skewnorm.cdf(z, shape), abs=1e-12)


def test_log_cdf_ends_are_finite_and_monotone():
    assert log_cdf([-math.inf, math.inf], 3.0).tolist() == [-math.inf, 0.0]
    assert log_cdf(-1e3, 0.0) == pytest.approx(norm.logcdf(-1e3) + 0.0)
    assert np.isfinite(log_cdf([-1e9, 1e9], 50.0)).all()
    z = np.linspace(-30, 30, 4001)
    assert (np.diff(log_cdf(z, 5.0)) >= 0).all()


@pytest.mark.parametrize("shape", [-8.0, 3.0])
def test_fit_finds_the_law(shape):
    draw = np.random.default_rng(1)
    scores = skewnorm.rvs(shape, 10, 3, size=20_000, random_state=draw)
    law = fit(scores, draw)
    assert law.acceptable and law.n == 10_000
    quantiles = skewnorm.ppf([0.001, 0.1, 0.5, 0.9, 0.999], shape)
    fitted = np.exp(log_cdf((10 + 3 * quantiles - law.location) / law.scale, law.shape))
    assert fitted == pytest.approx([0.001, 0.1, 0.5, 0.9, 0.999], abs=0.008)
    few = scores[:2000]
    moved = fit(few * 5 + 100, np.random.default_rng(1))
    again = fit(few, np.random.default_rng(1))
    assert moved.location == pytest.approx(again.location * 5 + 100, rel=1e-3)
    assert moved.scale == pytest.approx(again.scale * 5, rel=1e-3)


@pytest.mark.calibration
def test_true_skew_normals_are_acceptable():
    draw, bad = np.random.default_rng(0), 0
    for i in range(150):
        scores = skewnorm.rvs([0.0, 2.0, -5.0][i % 3], 10, 3, size=200, random_state=draw)
        bad += not fit(scores, draw).acceptable
    assert bad / 150 <= 0.05


def test_other_laws_are_not_acceptable():
    for sample in (
        lambda draw: draw.standard_t(1.5, size=2000),
        lambda draw: draw.choice([-3.0, 3.0], 2000) + draw.normal(size=2000),
        lambda draw: draw.integers(0, 4, 2000) * 1.0,
    ):
        draw = np.random.default_rng(0)
        assert not fit(sample(draw), draw).acceptable


class InOrder:
    """A stream that leaves the order alone."""

    def permutation(self, scores):
        return scores


def test_fit_is_judged_by_unseen_scores():
    scores = np.random.default_rng(0).normal(size=400)
    assert fit(scores, InOrder()).acceptable
    moved = fit(np.concatenate([scores[:200], scores[200:] + 1]), InOrder())
    assert not moved.acceptable


def test_exposure_is_the_capped_tail_in_bits():
    law = SkewNormal(location=50.0, scale=4.0, shape=0.0, n=100, p_value=0.5)
    bits = exposure_bits(law, [50.0, 50 - 4 * 1.2815515655, -1e6, -math.inf, 1e6], 1e9)
    top = math.log2(1e9)
    assert bits == pytest.approx([1.0, math.log2(10), top, top, 0.0])
    steep = SkewNormal(50.0, 4.0, 5.0, 100, 0.5)
    deep = exposure_bits(steep, [30.0, 25.0, 20.0], math.inf)
    assert np.isfinite(deep).all() and (np.diff(deep) > 0).all()


def test_exposure_of_a_known_space_matches_the_rank():
    draw = np.random.default_rng(0)
    space = np.sort(skewnorm.rvs(2, 40, 5, size=100_000, random_state=draw))
    law = fit(draw.choice(space, 2000, replace=False), draw)
    for rank in (10, 1000, 30_000):
        (bits,) = exposure_bits(law, [space[rank - 1]], 1e5)
        assert bits == pytest.approx(math.log2(1e5 / rank), abs=1.0)
