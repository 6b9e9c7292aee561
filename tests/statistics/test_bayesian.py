"""The credible limit against a sampled posterior, and how far it is from a confidence bound."""

from __future__ import annotations

import math

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
@pytest.mark.parametrize("credibility", [0.95, 0.5])
def test_it_is_a_quantile_of_the_posterior(counts, delta, credibility):
    draw = np.random.default_rng(0)
    rates = [draw.beta(k + 0.5, n - k + 0.5, 1_000_000) for k, n in (counts[:2], counts[2:])]
    found = epsilon_credible(*counts, delta, credibility)
    exceeds = np.mean(epsilon(*rates, delta) > found)
    if found > 0:
        assert exceeds == pytest.approx(credibility, abs=0.002)
    else:
        assert exceeds <= credibility + 0.002


def test_it_is_bolder_than_the_confidence_bound():
    for counts in [(0, 100, 0, 100), (5, 100, 7, 100), (1, 20, 200, 500)]:
        assert epsilon_credible(*counts) > two_rates.epsilon_lower(*counts)


def test_many_trainings_leave_no_doubt():
    assert epsilon_credible(11920, 100_000, 11920, 100_000) == pytest.approx(2.0, abs=0.03)
    assert epsilon_credible(50, 100, 50, 100) == 0.0


def refuted(n, m, fpr, fnr):
    """How often the limit is above the truth, every pair of counts weighed by its probability."""
    limits = np.array([[epsilon_credible(i, n, j, m) for j in range(m + 1)] for i in range(n + 1)])
    weights = np.outer(binom.pmf(range(n + 1), n, fpr), binom.pmf(range(m + 1), m, fnr))
    return weights[limits > epsilon(fpr, fnr)].sum()


def test_its_error_rate_is_not_guaranteed(monkeypatch):
    monkeypatch.setattr(bayesian, "_NODES", 200)
    monkeypatch.setattr(bayesian, "_WIDTH", 1e-4)
    assert 0.05 < refuted(10, 10, 0.5, 0.5) < 0.07  # of a release that tells nothing
    assert refuted(10, 10, 0.1364, 0.1413) > 0.2


@pytest.mark.full
def test_with_thirty_trainings_a_side_it_errs_up_to_23_times_in_a_hundred(monkeypatch):
    monkeypatch.setattr(bayesian, "_NODES", 400)
    monkeypatch.setattr(bayesian, "_WIDTH", 1e-4)
    assert refuted(30, 30, 0.0574, 0.056) == pytest.approx(0.234, abs=0.005)


@pytest.mark.parametrize(
    ("counts", "delta", "credibility"),
    [
        ((-1, 5, 0, 5), 0.0, 0.95),
        ((0, 5, 6, 5), 0.0, 0.95),
        ((0, 5, 0, 5), 1.5, 0.95),
        ((0, 5, 0, 5), math.nan, 0.95),
        ((0, 5, 0, 5), 0.0, 1.0),
    ],
)
def test_bad_values_are_refused(counts, delta, credibility):
    with pytest.raises(ValueError):
        epsilon_credible(*counts, delta, credibility)
