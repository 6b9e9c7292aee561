"""The Gaussian diagnostic: its recursion against a linear program, its level, what it is not."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom, norm

from audit.statistics import one_run
from audit.statistics.f_dp import epsilon_of, gaussian_rejected, mu_lower
from tests.simulations import repeats

RUNS = 2000


def delta_of(mu: float, epsilon: float) -> float:
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@cache
def fewest_rejected(mu: float, m: int, r: int) -> int:
    """The fewest right guesses that reject mu; r + 1: none do."""
    return next((v for v in range(r + 1) if gaussian_rejected(mu, m, r, v)), r + 1)


def largest_tail(mu: float, m: int, r: int, v: int) -> float:
    """The largest P[>= v right] that the trade-off curve allows, by linear programming.

    right_{j+1} <= e^ε wrong_j + δ(ε) for every ε: the tangents of the curve.
    """
    i = np.arange(r + 1)
    rows, limits = [], []
    for j in range(r):
        for epsilon in np.linspace(-6, 10, 120):
            right, wrong = np.where(i > j, i, 0) / m, np.where(i >= j, r - i, 0) / m
            rows.append(right - math.exp(epsilon) * wrong)
            limits.append(delta_of(mu, epsilon))
    found = linprog(
        -(i >= v).astype(float), rows, limits, np.ones((1, r + 1)), [1.0], bounds=(0, 1)
    )
    return -found.fun


@pytest.mark.parametrize(("mu", "m", "r"), [(0.5, 12, 12), (1.0, 12, 12), (1.0, 100, 10)])
def test_rejected_are_those_whose_tail_must_be_smaller(mu, m, r):
    for v in range(r // 2, r + 1):
        tail = largest_tail(mu, m, r, v)
        assert tail == pytest.approx(1) or gaussian_rejected(mu, m, r, v, 0.997 - tail)
        assert not gaussian_rejected(mu, m, r, v, min(0.999, 1.003 - tail))


def test_without_any_privacy_loss_it_is_nearly_the_binomial_tail():
    v = fewest_rejected(0.0, 1000, 1000)
    assert 0.03 < binom.sf(v - 1, 1000, 0.5) <= 0.05


@pytest.mark.parametrize(("m", "r"), [(1000, 1000), (1000, 100), (1000, 8), (60, 60)])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@repeats(300, RUNS)
def test_true_gaussian_noise_is_rejected_at_most_one_time_in_twenty(mu, m, r, runs):
    draw = np.random.default_rng(0)
    v = fewest_rejected(mu, m, r)
    rejected = {"sure": 0, "high": 0}
    for _ in range(runs):
        coins = draw.random(m) < 0.5
        scores = mu * (coins - 0.5) + draw.normal(size=m)
        sure = np.argpartition(-np.abs(scores), r - 1)[:r]  # guess where the score is extreme
        rejected["sure"] += ((scores[sure] > 0) == coins[sure]).sum() >= v
        rejected["high"] += coins[np.argpartition(-scores, r - 1)[:r]].sum() >= v
    assert max(rejected.values()) / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize(("m", "least"), [(10_000, 0.6), (300_000, 0.75)])
def test_with_many_coins_it_comes_near_the_truth(m, least):
    """And no nearer: a few sure guesses in very many coins reach some 0.85 of it."""
    draw, r = np.random.default_rng(1), 1000
    coins = draw.random(m) < 0.5
    scores = (coins - 0.5) + draw.normal(size=m)
    sure = np.argpartition(-np.abs(scores), r - 1)[:r]
    found = mu_lower(m, r, int(((scores[sure] > 0) == coins[sure]).sum()))
    assert least < found < 1.0


def test_on_randomised_response_it_exceeds_the_true_epsilon():
    """Why it is never an (ε, δ) bound: the release is 2-DP, and one_run knows."""
    right = np.random.default_rng(0).binomial(1000, expit(2.0), size=RUNS)
    shown = {v: epsilon_of(mu_lower(1000, 1000, v), 1e-5) for v in np.unique(right).tolist()}
    assert np.mean([shown[v] > 2.0 for v in right]) > 0.99
    assert np.mean([one_run.epsilon_lower(1000, 1000, int(v)) > 2.0 for v in right[:300]]) < 0.09


def test_the_bound_is_the_largest_rejected():
    for m, r, v in [(1000, 1000, 880), (1000, 100, 96), (100, 100, 75)]:
        mu = mu_lower(m, r, v)
        assert gaussian_rejected(mu, m, r, v) and not gaussian_rejected(mu + 1e-5, m, r, v)
        assert mu_lower(m, r, v - 1) <= mu <= mu_lower(m, r, v, confidence=0.9)
    assert mu_lower(1000, 1000, 510) == 0.0
    assert mu_lower(10, 0, 0) == 0.0
    assert not gaussian_rejected(math.inf, 10, 10, 10)


@pytest.mark.parametrize(("mu", "delta"), [(1.0, 1e-5), (0.3, 1e-3), (5.0, 1e-6), (20.0, 1e-5)])
def test_epsilon_is_where_the_gaussian_has_this_delta(mu, delta):
    assert delta_of(mu, epsilon_of(mu, delta)) == pytest.approx(delta, rel=1e-3)


def test_known_epsilons():
    assert epsilon_of(1.0, 1e-5) == pytest.approx(4.37718, abs=1e-5)
    assert epsilon_of(1.0, 2 * norm.cdf(0.5) - 1) == 0.0  # the total variation distance
    assert epsilon_of(0.0, 0.0) == 0.0
    assert epsilon_of(1.0, 0.0) == math.inf


@pytest.mark.parametrize(("m", "r", "v"), [(5, 6, 1), (5, 4, 5), (5, 4, -1)])
def test_bad_counts_are_refused(m, r, v):
    with pytest.raises(ValueError, match="guesses"):
        gaussian_rejected(1.0, m, r, v)


def test_bad_settings_are_refused():
    for call in (
        lambda: gaussian_rejected(-1.0, 5, 4, 3),
        lambda: gaussian_rejected(math.nan, 5, 4, 3),
        lambda: mu_lower(5, 4, 3, 1.0),
        lambda: epsilon_of(-1.0, 0.1),
        lambda: epsilon_of(math.inf, 0.1),
        lambda: epsilon_of(1.0, 1.1),
    ):
        with pytest.raises(ValueError):
            call()
