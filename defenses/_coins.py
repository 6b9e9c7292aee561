"""PMixed's mechanism: each query draws its members by coins, and clips them to the public model.

One token is released, from the mean of the members that joined (each by a coin q; none: h_∅). Over
the coins, that token's pmf is  h = w·h_∅ + (1−w)·h̄,  w = (1−q)^k and h̄ the mean of all members: by
symmetry the mean of those who joined is on average the mean of all. So the coins need not be drawn.

What one part can change is then known exactly. Let r_j = h_j/h_∅, in [e^−c, e^c] and 1 on average
over h_∅; P = w + u·Σ r_j with u = (1−w)/k, and Q the same without part i, for k − 1 parts. Then
e^{(α−1)D_α(h‖h')} = E_{h_∅} P^α Q^{1−α}, jointly convex in (P, Q), so in all r: it only grows when
every r_j is spread to the ends of the band, which it meets with probability 1/(1+e^c) and the rest;
when the other parts, whose sum alone counts, move together (the most convex of all sums); and what
is left to choose, t = P(r_i and the others at e^c), enters linearly: an end of its range is worst.
"""

from __future__ import annotations

import math

import torch

from audit.core.ensemble import log_mean

_WIDEST = 30.0  # c beyond which nothing is clipped any more
_HALVINGS = 200
_OVERFLOW = 700.0  # e to this power is still a float


def removed(bound: float, coin: float, parts: int, alpha: float) -> float:
    """The largest D_α, nats, of either direction, when one of k ≥ 2 parts is removed.

    bound: c; coin: q. Exact: some members within the band reach it.
    """
    w, u = _weights(coin, parts)
    w_less, u_less = _weights(coin, parts - 1)
    low, high = math.exp(-bound), math.exp(bound)
    up = 1 / (1 + high)
    worst = 0.0
    for both in (0.0, up):  # linear in between, so an end is worst
        table = (
            (both, high, high),
            (up - both, high, low),
            (up - both, low, high),
            (math.tanh(bound / 2) + both, low, low),
        )
        pairs = [
            (mass, w + u * (own + (parts - 1) * other), w_less + u_less * (parts - 1) * other)
            for mass, own, other in table
        ]
        forth = _divergence(pairs, alpha)
        back = _divergence([(mass, q, p) for mass, p, q in pairs], alpha)
        worst = max(worst, forth, back)
    return worst


def replaced(bound: float, coin: float, parts: int, alpha: float) -> float:
    """D_α, nats, at most, when one of k parts is replaced: min(ε', αε'²/2) for the largest log
    ratio ε' of any token (arXiv 1605.02065, Proposition 3.3), itself at most 2c."""
    w, u = _weights(coin, parts)
    low, high = math.exp(-bound), math.exp(bound)
    others = (parts - 1) * low
    loss = math.log((w + u * (high + others)) / (w + u * (low + others)))
    return min(loss, alpha * loss * loss / 2)


def bound_for(divergence: float, coin: float, parts: int, alpha: float) -> float:
    """c: the widest band with D_α of a removed part at most this many nats."""
    low, high = 0.0, _WIDEST
    if removed(high, coin, parts, alpha) <= divergence:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = removed(middle, coin, parts, alpha) <= divergence
        low, high = (middle, high) if fits else (low, middle)
    return low


def joined(members: torch.Tensor, public: torch.Tensor, coin: float) -> torch.Tensor:
    """log(w·h_∅ + (1−w)·h̄): clipped members (n, k, V) and the public model (n, V), nats."""
    w, _ = _weights(coin, members.shape[1])
    if w == 0:
        return log_mean(members)
    return torch.logaddexp(public + math.log(w), log_mean(members) + math.log1p(-w))


def _weights(coin: float, parts: int) -> tuple[float, float]:
    """(w, u): what the public model and what each of the parts weighs in h."""
    w = (1 - coin) ** parts
    return w, (1 - w) / parts


def _divergence(pairs: list[tuple[float, float, float]], alpha: float) -> float:
    """D_α, nats, from (mass, P, Q) with E P = E Q = 1.

    E P^α Q^{1−α} − 1 = E Q·((1+x)^α − 1 − αx) for x = P/Q − 1: no term is negative, none cancels.
    """
    total = 0.0
    for mass, p, q in pairs:
        x = (p - q) / q
        power = alpha * (math.log1p(x) if x > -0.5 else math.log(p / q))
        if power > _OVERFLOW:
            return math.inf
        total += mass * q * (math.expm1(power) - alpha * x)
    return max(0.0, math.log1p(total) / (alpha - 1))
