"""LiRA and RMIA against their formulas, and on candidates of known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from attacks.scores.shadow_models import lira_offline, lira_online, rmia


def world(
    shift: float, seed: int = 0, n: int = 400, shadows: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(members, φ, φ under shadows, present): every candidate has its own level; those a model was
    trained on lie `shift` higher."""
    generator = np.random.default_rng(seed)
    coins = generator.random((shadows + 1, n)) < 0.5
    phi = 3 * generator.normal(size=n) + generator.normal(size=coins.shape) + shift * coins
    return coins[0], phi[0], phi[1:], coins[1:]


def pooled(phi: np.ndarray, kept: np.ndarray) -> tuple[list[float], float]:
    columns = [phi[kept[:, i], i] for i in range(phi.shape[1])]
    squares = sum(((c - c.mean()) ** 2).sum() for c in columns if len(c))
    freedom = sum(len(c) - 1 for c in columns if len(c))
    return [c.mean() if len(c) else math.nan for c in columns], math.sqrt(squares / freedom)


def test_lira_is_the_ratio_of_two_normal_densities() -> None:
    _, phi, shadows, present = world(1.0, n=40)
    present[:, 0], present[:, 1] = True, False
    inside, sigma_in = pooled(shadows, present)
    outside, sigma_out = pooled(shadows, ~present)
    online = norm.logpdf(phi, inside, sigma_in) - norm.logpdf(phi, outside, sigma_out)
    np.testing.assert_allclose(lira_online(phi, shadows, present), online, rtol=1e-9)
    offline = (phi - outside) / sigma_out
    np.testing.assert_allclose(lira_offline(phi, shadows, present), offline, rtol=1e-9)
    assert np.isnan(online).nonzero()[0].tolist() == [0, 1]
    assert np.isnan(offline).nonzero()[0].tolist() == [0]


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_rmia_counts_the_texts_that_a_candidate_dominates(gamma: float) -> None:
    _, phi, shadows, _ = world(1.0, n=30)
    _, z, z_shadows, _ = world(0.0, seed=1, n=50)
    found = rmia(phi, shadows, z, z_shadows, gamma)
    own = np.exp(phi) / np.exp(shadows).mean(axis=0)
    other = np.exp(z) / np.exp(z_shadows).mean(axis=0)
    expected = [(x / other >= gamma).mean() for x in own]
    np.testing.assert_array_equal(found, expected)
    assert 0 < np.mean(found) < 1


def test_models_that_are_all_the_same_give_all_the_same_finite_score() -> None:
    phi = np.random.default_rng(0).normal(size=20)
    for value in (phi, np.full(20, -1000.0)):
        shadows = np.tile(value, (4, 1))
        present = np.tile(np.array([[True], [False]]), (2, 20))
        assert (lira_online(value, shadows, present) == 0).all()
        assert (lira_offline(value, shadows, present) == 0).all()
        assert (rmia(value, shadows, value, shadows, 1.0) == 1).all()
    assert rmia(phi, shadows, value, shadows, 1.0).tolist() == [1.0] * 20
    far = np.array([-1.0, -950.0]), np.array([[-1.0, -1.0], [-999.0, -2.0]])
    with np.errstate(over="raise"):  # models that are far apart
        assert rmia(*far, far[0][:1], far[1][:, :1], 1.0).tolist() == [1.0, 0.0]


def test_what_was_not_read_does_not_spread() -> None:
    _, phi, shadows, present = world(1.0, n=40)
    full = lira_online(phi, shadows, present)
    phi[3], shadows[:, 4] = np.nan, np.nan
    found = lira_online(phi, shadows, present)
    assert np.isnan(found).nonzero()[0].tolist() == [3, 4]
    assert np.abs(found - full)[5:].max() < 0.5
    rest = rmia(phi, shadows, phi, shadows, 1.0)
    assert np.isnan(rest).nonzero()[0].tolist() == [3, 4]
    assert np.nanmin(rest) == 1 / 38 and np.nanmax(rest) == 1.0
    assert np.isnan(rmia(phi, shadows, phi[:0], shadows[:, :0], 1.0)).all()
