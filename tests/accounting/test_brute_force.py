"""ε against δ(ε) worked out directly from densities: no PLD, no library."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from audit.accounting import Gaussians, Mechanism, epsilon, epsilon_under_replace
from audit.accounting.renyi import known_coins_epsilon

QUICK = 1e-4  # tolerance of ε


def laws(term, relation, points):
    """Probabilities of small cells under both worst-case laws of one release."""
    sigma, n, q = term.noise_multiplier, term.records, term.sampling_probability
    edge = n + 12 * sigma
    x, h = np.linspace(-edge, edge, points, retstep=True)

    def shifted(sign):
        weights = binom.pmf(np.arange(n + 1), n, q)
        return sum(w * norm.pdf(x, sign * k, sigma) for k, w in enumerate(weights)) * h

    return shifted(1), shifted(-1) if relation == "replace" else norm.pdf(x, 0, sigma) * h


def hockey_stick(p, q, e):
    return np.maximum(p - math.exp(e) * q, 0).sum()


def true_delta(term, relation, e):
    p, q = laws(term, relation, 200_001 if term.count == 1 else 1601)
    if term.count == 2:
        p, q = np.outer(p, p), np.outer(q, q)
    return max(hockey_stick(p, q, e), hockey_stick(q, p, e))


ONE_STEP = [
    Gaussians(1.0, 1, 0.01),
    Gaussians(0.5, 1, 0.3),
    Gaussians(3.0, 1, 0.1),
    Gaussians(0.3, 1, 0.001),
]
SEVERAL_RECORDS = [Gaussians(1.0, 1, 0.01, 2), Gaussians(2.0, 1, 0.1, 7)]
TWO_STEPS = [Gaussians(0.8, 2, 0.1), Gaussians(1.5, 2, 0.5)]


@pytest.mark.parametrize("delta", [pytest.param(1e-3, marks=pytest.mark.calibration), 1e-6])
@pytest.mark.parametrize(
    "term, relation",
    [(term, relation) for term in ONE_STEP for relation in ("add_or_remove", "replace")]
    + [(term, "add_or_remove") for term in SEVERAL_RECORDS],
)
def test_one_step(term, relation, delta):
    found = epsilon(Mechanism((term,), relation), delta, QUICK)
    assert true_delta(term, relation, found) <= delta * (1 + 1e-6)
    assert found == 0 or true_delta(term, relation, found - 1e-3 * max(1.0, found)) > delta


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
@pytest.mark.parametrize("term", SEVERAL_RECORDS)
def test_several_records_replaced(term, delta):
    """Each by its opposite: both ways to bound it hold, also by themselves."""
    found = epsilon_under_replace(Mechanism((term,), "add_or_remove"), delta, 1e-3)
    known = known_coins_epsilon(Mechanism((term,), "add_or_remove"), math.log(delta))
    assert found <= known
    assert true_delta(term, "replace", found) <= delta
    assert true_delta(term, "replace", known) <= delta


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
@pytest.mark.parametrize("relation", ["add_or_remove", "replace"])
@pytest.mark.parametrize("term", TWO_STEPS)
def test_two_steps(term, relation, delta):
    found = epsilon(Mechanism((term,), relation), delta, QUICK)
    assert true_delta(term, relation, found) <= delta * (1 + 2e-3)  # a coarser grid, squared
    assert true_delta(term, relation, found - 2e-3 * max(1.0, found)) > delta


@pytest.mark.parametrize(
    ("length", "angle"),
    [
        *((0.0, 0.0), (0.7, 0.5), (0.7, 2.5), (1.0, 0.5), (1.0, 1.5), (1.0, math.pi)),
        *(pytest.param(*at, marks=pytest.mark.calibration)
          for at in ((0.7, 0.0), (0.7, 1.5), (0.7, math.pi), (1.0, 0.0), (1.0, 2.5))),
    ],
)  # fmt: skip
def test_no_other_pair_of_gradients_costs_more_under_replace(angle, length):
    """A gradient of length 1 is replaced by another one, anywhere within the clipping norm."""
    sigma, q, delta = 0.8, 0.2, 1e-4
    found = epsilon(Mechanism((Gaussians(sigma, 1, q),), "replace"), delta, QUICK)
    x, h = np.linspace(-9, 9, 1501, retstep=True)

    def mixture(a, b):
        there = np.outer(norm.pdf(x, a, sigma), norm.pdf(x, b, sigma))
        absent = np.outer(norm.pdf(x, 0, sigma), norm.pdf(x, 0, sigma))
        return (q * there + (1 - q) * absent) * h * h

    p, other = mixture(1.0, 0.0), mixture(length * math.cos(angle), length * math.sin(angle))
    for e in (found, found / 2, found / 10):
        opposite = hockey_stick(*laws(Gaussians(sigma, 1, q), "replace", 20_001), e)
        worst = max(hockey_stick(p, other, e), hockey_stick(other, p, e))
        assert worst <= opposite * (1 + 1e-3)


@pytest.mark.parametrize("relation", ["add_or_remove", "replace"])
@pytest.mark.parametrize("order", [1.3, 2.0, 9.0])
@pytest.mark.parametrize("sigma, q", [(1.0, 0.01), (0.4, 0.2), (6.0, 0.5)])
def test_renyi_divergences_of_the_pair(sigma, q, order, relation):
    """For integer orders by the binomial sum (Mironov et al. 2019); else by a much finer grid."""
    term = Gaussians(sigma, 1, q)
    found = term.pair(relation).divergence(order)
    if order.is_integer() and relation == "add_or_remove":
        k = np.arange(int(order) + 1)
        moment = binom.pmf(k, int(order), q) @ np.exp((k * k - k) / (2 * sigma**2))
        assert found == pytest.approx(math.log(moment) / (order - 1), rel=1e-9)
        return
    edge = order + 1 + 14 * sigma
    x, h = np.linspace(-edge, edge, 40_001, retstep=True)

    def log_mixture(sign):
        at = norm.logpdf(x, sign, sigma) + math.log(q)
        return np.logaddexp(at, norm.logpdf(x, 0, sigma) + math.log1p(-q))

    a, b = log_mixture(1), log_mixture(-1) if relation == "replace" else norm.logpdf(x, 0, sigma)
    forth = np.exp(order * a + (1 - order) * b).sum() * h
    back = np.exp(order * b + (1 - order) * a).sum() * h
    assert found == pytest.approx(math.log(max(forth, back)) / (order - 1), rel=1e-8)
