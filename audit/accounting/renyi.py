"""Upper bounds on ε by Rényi divergences: looser than the PLD, but available for every δ."""

from __future__ import annotations

import math
from collections.abc import Callable

from audit.accounting.mechanism import Mechanism

_ORDERS = 60
_SLACK = 1e-12  # added to every log moment: above the rounding error of the sums


def renyi_epsilon(mechanism: Mechanism, log_delta: float) -> float:
    """Bound ε (nats) at log δ by Rényi divergences of dominating pairs; inf if none is known."""
    others = [term for term in mechanism.active if not term.is_gaussian]
    if not others or math.isinf(log_delta) or mechanism.noiseless:
        return math.inf
    paired = [(term.count, term.pair(mechanism.relation)) for term in others]
    known = [(count, pair) for count, pair in paired if pair is not None]
    if len(known) < len(paired):
        return math.inf
    always = math.hypot(*(t.mu(mechanism.relation) for t in mechanism.active if t.is_gaussian))

    def divergence(order: float) -> float:
        total = order * always * always / 2.0
        for count, pair in known:
            total += count * (pair.divergence(order) + _SLACK / (order - 1.0))
        return total

    return least_epsilon(divergence, min(pair.reach for _, pair in known), log_delta)


def known_coins_epsilon(mechanism: Mechanism, log_delta: float) -> float:
    """Bound ε (nats) at log δ under replace, by Rényi divergences, as if coins were released too.

    Releasing more never lowers ε. That forgoes amplification by secret coins, but holds for units
    of several records.
    """
    if math.isinf(log_delta) or mechanism.noiseless:
        return math.inf

    def divergence(order: float) -> float:
        moments = (t.count * (t.known_coins_moment(order) + _SLACK) for t in mechanism.active)
        return sum(moments) / (order - 1.0)

    return least_epsilon(divergence, 100.0, log_delta)


def least_epsilon(divergence: Callable[[float], float], reach: float, log_delta: float) -> float:
    """Compute the least ε (nats) over orders up to 1 + reach.

    From D_α to (ε, δ) by Canonne, Kamath and Steinke 2020 (arXiv 2004.00010, proposition 12):
    ε = D_α + log(1 - 1/α) - (log δ + log α)/(α - 1).
    """
    best = math.inf
    for i in range(_ORDERS):
        order = 1.0 + reach * 10.0 ** (-6.0 * i / _ORDERS)
        loss = (log_delta + math.log(order)) / (order - 1.0)
        best = min(best, divergence(order) + math.log1p(-1.0 / order) - loss)
    return max(0.0, best)
