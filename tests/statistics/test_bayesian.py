"""The credible limit against a sampled posterior, and how far it is from a confidence bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from audit.statistics import bayesian, two_rates
from audit.statistics.bayesian import epsilon_credible


def epsilon(fpr, fnr, delta=0.0):
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.log(np.maximum(0, 1 - delta - fnr) / fpr)
        return np.maximum(0, np.maximum(first, np.log(np.maximum(0, 1 - delta - fpr) / fnr)))


@pytest.mark.parametrize(
    ("counts", "delta"),
    [
        ((5, 100, 7, 100), 1e-5),
        ((0, 30, 0, 30), 0.0),
        ((1, 500, 3, 6), 0.05),
        ((40, 100, 45, 100), 0.0),
        ((0, 0, 0, 200), 0.0),
    ],
)
def test_limit_is_a_quantile_of_the_posterior(counts, delta):
    draw = np.random.default_rng(0)
    rates = [draw.beta(k + 0.5, n - k + 0.5, 400_000) for k, n in (counts[:2], counts[2:])]
    for credibility in (0.95, 0.5):
        found = epsilon_credible(*counts, delta, credibility)
        exceeds = np.mean(epsilon(*rates, delta) > found)
        assert exceeds <= credibility + 0.003
        assert found == 0.0 or exceeds >= credibility - 0.003


def test_limit_is_above_the_confidence_bound():
    for counts in [(0, 100, 0, 100), (5, 100, 7, 100), (1, 20, 200, 500)]:
        assert epsilon_credible(*counts) > two_rates.epsilon_lower(*counts)


def test_limit_of_many_trainings_is_the_truth():
    assert epsilon_credible(11920, 100_000, 11920, 100_000) == pytest.approx(2.0, abs=0.03)
    assert epsilon_credible(50, 100, 50, 100) == 0.0


@pytest.mark.parametrize(
    ("n", "rates"),
    [
        (10, {(0.5, 0.5): 0.06, (0.1364, 0.1413): 0.21}),  # the first of a release without leaks
        pytest.param(30, {(0.0574, 0.056): 0.234}, marks=pytest.mark.full),
    ],
)
def test_error_rate_exceeds_five_percent(monkeypatch, n, rates):
    """Exact: every pair of counts weighed by its probability."""
    monkeypatch.setattr(bayesian, "_NODES", 200)
    monkeypatch.setattr(bayesian, "_WIDTH", 1e-4)
    limits = np.array([[epsilon_credible(i, n, j, n) for j in range(n + 1)] for i in range(n + 1)])
    for (fpr, fnr), error in rates.items():
        weights = np.outer(binom.pmf(range(n + 1), n, fpr), binom.pmf(range(n + 1), n, fnr))
        found = weights[limits > epsilon(fpr, fnr)].sum()
        assert found == pytest.approx(error, abs=0.01), (fpr, fnr)
