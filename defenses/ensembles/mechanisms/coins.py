"""PMixed's mechanism: each query draws its members by coins, and clips them to the public model.

Each member joins by a coin q. One token is released, from the mean of the members that joined, or
from h_∅ if none did. Averaged over the coins, its pmf is  h = w·h_∅ + (1−w)·h̄  with w = (1−q)^k and
h̄ the mean of all members, by symmetry. So the coins need not be drawn.

The worst case of one part is exact. Let r_j = h_j/h_∅, in [e^−c, e^c] with mean 1 over h_∅. Let
P = w + u·Σ r_j with u = (1−w)/k, and Q the same without part i, for k − 1 parts. Then
e^{(α−1)D_α(h‖h')} = E_{h_∅} P^α Q^{1−α}, which is jointly convex in (P, Q), and so in all r.
1. It grows when every r_j is spread to the ends of the band, e^c with probability 1/(1+e^c).
2. It grows when the remaining parts, which count only by their sum, move together.
3. The last free number, t = P(r_i and the remaining parts at e^c), enters linearly, so an end of
   its range is the worst case.
"""

from __future__ import annotations

import math

import torch

from audit.core.ensemble import log_mean

_WIDEST = 30.0  # a wider band c clips nothing
_HALVINGS = 200
_OVERFLOW = 700.0  # e to this power is still a float


def removed(bound: float, coin: float, parts: int, alpha: float) -> float:
    """Compute the largest D_α, nats, in either direction, when one of k ≥ 2 parts is removed.

    bound: c. coin: q. Exact: some members within the band reach it.
    """
    w, u = _weights(coin, parts)
    w_less, u_less = _weights(coin, parts - 1)
    low, high = math.exp(-bound), math.exp(bound)
    up = 1 / (1 + high)
    worst = 0.0
    for both in (0.0, up):  # linear in between, so the maximum is at an end
        table = (
            (both, high, high),
            (up - both, high, low),
            (up - both, low, high),
            (math.tanh(bound / 2) + both, low, low),
        )
        pairs = [
            (mass, w + u * (own + (parts - 1) * rest), w_less + u_less * (parts - 1) * rest)
            for mass, own, rest in table
        ]
        forth = _divergence(pairs, alpha)
        back = _divergence([(mass, q, p) for mass, p, q in pairs], alpha)
        worst = max(worst, forth, back)
    return worst


def replaced(bound: float, coin: float, parts: int, alpha: float) -> float:
    """Bound D_α, nats, when one of k parts is replaced: min(ε', αε'²/2) for the largest log ratio
    ε' of any token, at most 2c (arXiv 1605.02065, Proposition 3.3)."""
    w, u = _weights(coin, parts)
    low, high = math.exp(-bound), math.exp(bound)
    rest = (parts - 1) * low
    loss = math.log((w + u * (high + rest)) / (w + u * (low + rest)))
    return min(loss, alpha * loss * loss / 2)


def bound_for(divergence: float, coin: float, parts: int, alpha: float) -> float:
    """Find the widest band c for which removing a part costs at most this D_α, nats."""
    low, high = 0.0, _WIDEST
    if removed(high, coin, parts, alpha) <= divergence:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = removed(middle, coin, parts, alpha) <= divergence
        low, high = (middle, high) if fits else (low, middle)
    return low


def joined(members: torch.Tensor, public: torch.Tensor, coin: float) -> torch.Tensor:
    """Compute log(w·h_∅ + (1−w)·h̄) from clipped members (n, k, V) and h_∅ (n, V), nats."""
    w, _ = _weights(coin, members.shape[1])
    if w == 0:
        return log_mean(members)
    return torch.logaddexp(public + math.log(w), log_mean(members) + math.log1p(-w))


def _weights(coin: float, parts: int) -> tuple[float, float]:
    """Return (w, u): the weights in h of the public model and of each part."""
    w = (1 - coin) ** parts
    return w, (1 - w) / parts


def _divergence(pairs: list[tuple[float, float, float]], alpha: float) -> float:
    """Compute D_α, nats, from (mass, P, Q) with E P = E Q = 1.

    E P^α Q^{1−α} − 1 = E Q·((1+x)^α − 1 − αx) for x = P/Q − 1. No term is negative, so no digits
    cancel.
    """
    total = 0.0
    for mass, p, q in pairs:
        x = (p - q) / q
        power = alpha * (math.log1p(x) if x > -0.5 else math.log(p / q))
        if power > _OVERFLOW:
            return math.inf
        total += mass * q * (math.expm1(power) - alpha * x)
    return max(0.0, math.log1p(total) / (alpha - 1))
