"""Scores of units in Poisson-sampled Gaussian steps, against densities and closed forms."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from audit.statistics.sampled_gaussian import area, log_ratios


def test_score_is_the_log_ratio_of_densities():
    random = np.random.default_rng(0)
    x, s, q = random.normal(size=(7, 3)), np.array([0.5, 1.0, 2.0]), 0.3
    absent = norm.pdf(x, 0, s)
    present = (1 - q) * absent + q * norm.pdf(x, 1, s)
    np.testing.assert_allclose(log_ratios(x, s, q), np.log(present / absent).sum(axis=0))
    np.testing.assert_allclose(log_ratios(x, s, 1.0), ((2 * x - 1) / (2 * s**2)).sum(axis=0))


@pytest.mark.parametrize(
    ("s", "steps"), [(1.0, 1), (2.0, 5), pytest.param(10.0, 300, marks=pytest.mark.full)]
)
def test_area_without_sampling_is_of_two_normals(s, steps):
    """Scores are N(∓T/2s², T/s²)."""
    due = norm.cdf(math.sqrt(steps) / s / math.sqrt(2))
    found = area(np.array([0.0, 1.0, 2.0]), np.array([0.0, 3.0]), s, 1.0, steps)
    assert found.due == pytest.approx(due, abs=1e-5)
    assert found.measured == (0.5 + 1 + 1) / 6


def test_chance_has_its_own_variance():
    """Next to no information: (m + n + 1)/12mn, but for the 1, is that of Mann and Whitney."""
    scores = np.arange(60.0)
    present, absent = scores[20:], scores[:20]
    found = area(present, absent, 100.0, 1.0, 1)
    z = (1.0 - found.due) / math.sqrt((40 + 20) / (12 * 40 * 20))
    assert found.p == pytest.approx(2 * norm.sf(z), rel=0.02)


def drawn(random, units, steps, s, q):
    """(scores of present, of absent units)."""
    noise = s * random.standard_normal((steps, 2 * units))
    noise[:, :units] += random.random((steps, units)) < q
    scores = log_ratios(noise, np.full(2 * units, s), q)
    return scores[:units], scores[units:]


def test_area_with_sampling_is_of_simulated_units():
    for s, q, steps in ((1.0, 0.05, 60), (1.0, 0.5, 4)):
        present, absent = drawn(np.random.default_rng(1), 30_000, steps, s, q)
        found = area(present, absent, s, q, steps)
        assert found.due == pytest.approx(found.measured, abs=0.008)  # 3 standard errors
        assert found.p > 1e-3


def test_half_the_noise_separates_units_too_well():
    """500 units with s = 1/2, scored as if s were 1."""
    random = np.random.default_rng(2)
    noise = 0.5 * random.standard_normal((1000, 500))
    noise[:, :250] += random.random((1000, 250)) < 0.01
    scores = log_ratios(noise, np.ones(500), 0.01)
    found = area(scores[:250], scores[250:], 1.0, 0.01, 1000)
    assert found.measured > found.due
    assert found.p < 1e-3


@pytest.mark.calibration
def test_p_value_of_the_area_holds_level():
    random = np.random.default_rng(3)
    ps = [area(*drawn(random, 48, 60, 1.0, 0.05), 1.0, 0.05, 60).p for _ in range(1000)]
    for level in (0.05, 0.01):
        assert abs(np.mean(np.array(ps) < level) - level) < 4 * math.sqrt(level / 1000)
