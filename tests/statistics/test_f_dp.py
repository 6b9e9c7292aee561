"""The Gaussian diagnostic: its recursion against a linear program, its level, what it is not."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom, norm

from audit.statistics import one_run
from audit.statistics.f_dp import epsilon_of, gaussian_rejected, mu_lower
from tests.simulations import most, repeats


def delta_of(mu: float, epsilon: Any) -> Any:
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def fewest_rejected(mu: float, m: int, r: int) -> int:
    """The fewest right guesses that reject mu; r + 1: none do."""
    return next((v for v in range(r // 2, r + 1) if gaussian_rejected(mu, m, r, v)), r + 1)


def largest_tail(mu: float, m: int, r: int, v: int) -> float:
    """The largest P[>= v right] that the trade-off curve allows, by linear programming.

    right_{j+1} <= e^ε wrong_j + δ(ε) for every ε: the tangents of the curve.
    """
    i, epsilons = np.arange(r + 1), np.linspace(-6, 10, 120)
    right, wrong = (
        np.array([np.where(i > j - side, x, 0) / m for j in range(r)])
        for side, x in ((0, i), (1, r - i))
    )
    rows = (right[:, None] - np.exp(epsilons)[:, None] * wrong[:, None]).reshape(-1, r + 1)
    limits = np.tile(delta_of(mu, epsilons), r)
    found = linprog(
        -(i >= v).astype(float), rows, limits, np.ones((1, r + 1)), [1.0], bounds=(0, 1)
    )
    return -found.fun


def test_rejected_tails_are_those_of_the_linear_programme():
    for mu, m, r in ((0.5, 9, 9), (1.0, 10, 10), (1.0, 100, 8)):
        for v in (r // 2, r - 2, r - 1, r):
            tail = largest_tail(mu, m, r, v)
            assert tail == pytest.approx(1) or gaussian_rejected(mu, m, r, v, 0.997 - tail)
            assert not gaussian_rejected(mu, m, r, v, min(0.999, 1.003 - tail)), (mu, m, v)


def test_without_privacy_loss_tail_is_nearly_binomial():
    v = fewest_rejected(0.0, 1000, 1000)
    assert 0.03 < binom.sf(v - 1, 1000, 0.5) <= 0.05


@repeats(200, 2000)
def test_true_gaussian_noise_is_rejected_at_level(runs):
    sizes = ((1000, 100), (1000, 1000), (1000, 8), (60, 60))
    for mu, (m, r) in itertools.product((0.3, 1.0, 3.0), sizes[:: 1 if runs > 200 else 3]):
        draw, v = np.random.default_rng(0), fewest_rejected(mu, m, r)
        coins = draw.random((runs, m)) < 0.5
        scores = mu * (coins - 0.5) + draw.normal(size=(runs, m))
        for key, guessed in ((-np.abs(scores), scores > 0), (-scores, np.ones_like(coins))):
            surest = np.argpartition(key, r - 1, axis=1)[:, :r]  # where the score is extreme
            right = np.take_along_axis(guessed == coins, surest, axis=1).sum(axis=1)
            assert (right >= v).mean() <= most(runs), (mu, m, r)


def test_many_coins_come_near_the_truth():
    """And no nearer: a few sure guesses in very many coins reach some 0.85 of it."""
    draw, r = np.random.default_rng(1), 1000
    for m, least in ((10_000, 0.6), (300_000, 0.75)):
        coins = draw.random(m) < 0.5
        scores = (coins - 0.5) + draw.normal(size=m)
        sure = np.argpartition(-np.abs(scores), r - 1)[:r]
        found = mu_lower(m, r, int(((scores[sure] > 0) == coins[sure]).sum()))
        assert least < found < 1.0


def test_randomised_response_shows_more_than_its_epsilon():
    """Why it is never an (ε, δ) bound: the release is 2-DP, and one_run knows."""
    likely = [int(v) for v in binom(1000, expit(2.0)).ppf([0.01, 0.99])]
    assert epsilon_of(mu_lower(1000, 1000, likely[0]), 1e-5) > 2.0
    assert one_run.epsilon_lower(1000, 1000, likely[0]) < 2.0


def test_bound_is_the_largest_rejected():
    for m, r, v in [(1000, 1000, 880), (1000, 100, 96), (100, 100, 75)]:
        mu = mu_lower(m, r, v)
        assert gaussian_rejected(mu, m, r, v) and not gaussian_rejected(mu + 1e-5, m, r, v)
        assert mu_lower(m, r, v - 1) <= mu <= mu_lower(m, r, v, confidence=0.9)
    assert mu_lower(1000, 1000, 510) == 0.0
    assert mu_lower(10, 0, 0) == 0.0
    assert not gaussian_rejected(math.inf, 10, 10, 10)


def test_epsilon_is_where_the_gaussian_has_delta():
    for mu, delta in ((1.0, 1e-5), (0.3, 1e-3), (5.0, 1e-6), (20.0, 1e-5)):
        assert delta_of(mu, epsilon_of(mu, delta)) == pytest.approx(delta, rel=1e-3)
    assert epsilon_of(1.0, 1e-5) == pytest.approx(4.37718, abs=1e-5)
    assert epsilon_of(1.0, 2 * norm.cdf(0.5) - 1) == 0.0  # the total variation distance
    assert epsilon_of(0.0, 0.0) == 0.0
    assert epsilon_of(1.0, 0.0) == math.inf
