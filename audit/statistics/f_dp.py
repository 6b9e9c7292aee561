"""ε under a Gaussian hypothesis (Mahloujifar, Melis and Chaudhuri 2024, arXiv 2410.22235).

A diagnostic: it assumes that the release's trade-off curve is Gaussian and estimates which one. It
is never an (ε, δ) bound and refutes no claim: a release that is ε-DP but not Gaussian, such as
randomised response at ε = 2, shows more than its ε nearly always (3.4 for 1,000 coins). For true
Gaussian noise it errs far less than the level named; 1,000 sure guesses among 10⁶ coins show some
0.85 of mu, guessing every coin much less.
"""

from __future__ import annotations

import math

from scipy.special import log_ndtr, ndtr, ndtri

from audit.statistics.checks import check_confidence, check_delta, check_guesses
from audit.statistics.search import largest

_WIDTH = 1e-6


def gaussian_rejected(mu: float, m: int, r: int, v: int, confidence: float = 0.95) -> bool:
    """Test whether v right guesses are too many for a mu-Gaussian-DP release.

    Wrongly True with probability at most 1 - confidence. m fair coins, one per protected unit; r
    guesses (how many fixed beforehand), v of them right. With p_i = P[i right], right_j =
    sum_{i>=j} i p_i/m and wrong_j = sum_{i>=j} (r - i) p_i/m, a trade-off curve f demands
    right_{j+1} <= 1 - f(wrong_j), here Φ(Φ⁻¹(wrong_j) + mu). Starting at j = v with a tail of 1 -
    confidence, each step down takes the least p_j that this allows; if they add up to more than 1,
    the tail must have been smaller (the recursion there). Raises ValueError unless 0 <= v <= r <=
    m, mu >= 0 and 0 < confidence < 1.
    """
    check_guesses(m, r, v)
    check_confidence(confidence)
    if not mu >= 0.0:
        raise ValueError(f"mu must be at least 0; got {mu}")

    tail = 1.0 - confidence
    right, wrong = tail * v / m, tail * (r - v) / m
    for j in range(v - 1, -1, -1):
        least = max(wrong, float(ndtr(ndtri(right) - mu)))
        right += j / (r - j) * (least - wrong)
        wrong = least
        if right + wrong > r / m:
            return True
    return False


def mu_lower(m: int, r: int, v: int, confidence: float = 0.95) -> float:
    """Find the largest mu that `gaussian_rejected` rejects, from below; 0.0 if none.

    Raises ValueError as it does.
    """
    if not gaussian_rejected(0.0, m, r, v, confidence):
        return 0.0
    return largest(lambda mu: gaussian_rejected(mu, m, r, v, confidence), 0.0, width=_WIDTH)


def epsilon_of(mu: float, delta: float) -> float:
    """Compute the ε (nats) at which a mu-Gaussian-DP release has this delta.

    δ(ε) = Φ(-ε/mu + mu/2) - e^ε Φ(-ε/mu - mu/2) (Balle and Wang 2018, arXiv 1805.06530); the
    relation is that of mu. 0.0 if δ(0) is already below; inf for delta = 0. Raises ValueError
    unless mu >= 0 and 0 <= delta <= 1.
    """
    if not 0.0 <= mu < math.inf:
        raise ValueError(f"mu must be at least 0 and finite; got {mu}")
    check_delta(delta)
    if mu == 0.0 or _delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0.0:
        return math.inf
    return largest(lambda epsilon: _delta(epsilon, mu) > delta, 0.0, width=_WIDTH)


def _delta(epsilon: float, mu: float) -> float:
    joint = math.exp(epsilon + float(log_ndtr(-epsilon / mu - mu / 2.0)))
    return float(ndtr(-epsilon / mu + mu / 2.0)) - joint
