"""An upper bound on ε by Rényi divergences: looser than the PLD, and never out of its depth."""

from __future__ import annotations

import math

from audit.accounting.losses import HEADROOM, pair_of
from audit.accounting.mechanism import Mechanism

_ORDERS = 60
_SLACK = 1e-12  # added to every log moment: above the rounding error of the sums


def renyi_epsilon(mechanism: Mechanism, log_delta: float) -> float:
    """ε (nats) at log δ from Rényi divergences of the dominating pairs; inf where none is known.

    Composition adds divergences. To (ε, δ) by Canonne, Kamath and Steinke 2020 (arXiv 2004.00010,
    proposition 12): ε = D_α + log(1 - 1/α) - (log δ + log α)/(α - 1), least over the orders α.
    """
    if not mechanism.audible:
        return 0.0
    if math.isinf(log_delta) or math.isinf(mechanism.mu):
        return math.inf
    sampled = [term for term in mechanism.audible if term.sampled]
    pairs = [pair_of(term, mechanism.relation) for term in sampled]
    reach = min((HEADROOM * t.noise_multiplier / t.records for t in sampled), default=1e4)
    always = math.hypot(*(mechanism.mu_of(t) for t in mechanism.audible if not t.sampled))
    best = math.inf
    for i in range(_ORDERS):
        excess = reach * 10.0 ** (-6.0 * i / _ORDERS)  # α - 1
        divergence = (1.0 + excess) * always * always / 2.0
        for term, pair in zip(sampled, pairs, strict=True):
            one = math.inf if pair is None else pair.divergence(1.0 + excess)
            divergence += term.count * (one + _SLACK / excess)
        best = min(best, _epsilon(divergence, 1.0 + excess, log_delta))
    return max(0.0, best)


def _epsilon(divergence: float, order: float, log_delta: float) -> float:
    return divergence + math.log1p(-1.0 / order) - (log_delta + math.log(order)) / (order - 1.0)
