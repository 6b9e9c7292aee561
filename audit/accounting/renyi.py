"""Upper bounds on ε by Rényi divergences: looser than the PLD, but available for every δ."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy
from scipy.special import logsumexp

from audit.accounting.mechanism import Gaussians, Mechanism
from audit.accounting.privacy_loss import HEADROOM, pair_of

_ORDERS = 60
_SLACK = 1e-12  # added to every log moment: above the rounding error of the sums


def renyi_epsilon(mechanism: Mechanism, log_delta: float) -> float:
    """Bounds ε (nats) at log δ by Rényi divergences of dominating pairs; inf if none is known."""
    sampled = [term for term in mechanism.active if term.sampled]
    if not sampled or math.isinf(log_delta) or math.isinf(mechanism.mu):
        return math.inf
    pairs = [pair_of(term, mechanism.relation) for term in sampled]
    if any(pair is None for pair in pairs):
        return math.inf
    always = math.hypot(*(mechanism.mu_of(t) for t in mechanism.active if not t.sampled))

    def divergence(order: float) -> float:
        total = order * always * always / 2.0
        for term, pair in zip(sampled, pairs, strict=True):
            assert pair is not None
            total += term.count * (pair.divergence(order) + _SLACK / (order - 1.0))
        return total

    reach = min(HEADROOM * term.noise_multiplier / term.records for term in sampled)
    return least_epsilon(divergence, reach, log_delta)


def known_coins_epsilon(mechanism: Mechanism, log_delta: float) -> float:
    """Bounds ε (nats) at log δ under replace, by Rényi divergences, as if coins were released too.

    Releasing more never lowers ε. With K of a unit's n records known to be in a sum, replacing them
    leads at most from N(K, σ²) to N(-K, σ²): D_α = log E e^(α(α-1)·2K²/σ²)/(α-1), K of Bin(n, q).
    That forgoes amplification by secret coins, but holds for units of several records.
    """
    if math.isinf(log_delta) or math.isinf(mechanism.mu):
        return math.inf
    moments = [(term.count, _known_coins_log_moment(term)) for term in mechanism.active]

    def divergence(order: float) -> float:
        total = sum(count * (log_moment(order) + _SLACK) for count, log_moment in moments)
        return total / (order - 1.0)

    return least_epsilon(divergence, 100.0, log_delta)


def _known_coins_log_moment(term: Gaussians) -> Callable[[float], float]:
    k = np.arange(term.records + 1)
    log_weights = scipy.stats.binom.logpmf(k, term.records, term.sampling_probability)
    squares = 2.0 * (k / term.noise_multiplier) ** 2
    return lambda order: float(logsumexp(log_weights + order * (order - 1.0) * squares))


def least_epsilon(divergence: Callable[[float], float], reach: float, log_delta: float) -> float:
    """Computes the least ε (nats) over orders up to 1 + reach.

    From D_α to (ε, δ) by Canonne, Kamath and Steinke 2020 (arXiv 2004.00010, proposition 12):
    ε = D_α + log(1 - 1/α) - (log δ + log α)/(α - 1).
    """
    best = math.inf
    for i in range(_ORDERS):
        order = 1.0 + reach * 10.0 ** (-6.0 * i / _ORDERS)
        loss = (log_delta + math.log(order)) / (order - 1.0)
        best = min(best, divergence(order) + math.log1p(-1.0 / order) - loss)
    return max(0.0, best)
