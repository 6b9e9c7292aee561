"""Empirical ε from one training run (Steinke, Nasr and Jagielski 2023, arXiv 2305.08846)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from audit.statistics.binomial import tail
from audit.statistics.checks import check_delta, check_guesses
from audit.statistics.search import largest

_WIDTH = 1e-12  # nats; how closely the bound approaches its supremum


def p_value(epsilon: float, m: int, r: int, v: int, delta: float = 0.0) -> float:
    """Bound the probability of v or more right guesses if the release is (epsilon, delta)-DP.

    m fair coins, one per protected unit with all its copies; r guesses (how many and by which rule
    fixed beforehand), v of them right. epsilon in nats, in the relation that the coins decide
    (presence: add-or-remove). With q = e^ε/(1+e^ε) and W = Bin(r, q):
    min(1, P[W >= v] + 2 m δ max_{1<=i<=v} P[v > W >= v-i]/i) (Theorem 5.2 there).
    Small = the claim does not explain the guesses. Rises with epsilon and with delta.
    Raises ValueError unless 0 <= v <= r <= m, epsilon >= 0 and 0 <= delta <= 1.
    """
    check_guesses(m, r, v)
    check_delta(delta)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon}")
    if v == 0:
        return 1.0

    log_right = -math.log1p(math.exp(-epsilon))
    beta = tail(v, r, math.exp(log_right))
    if delta == 0.0:
        return min(1.0, beta)
    log_wrong = log_right - epsilon  # scipy's binom.pmf is 0 below r where e^log_right rounds to 1
    right = np.arange(v - 1, -1, -1, dtype=np.float64)  # W = v-1, v-2, …, 0
    wrong = r - right
    log_ways = gammaln(r + 1.0) - gammaln(right + 1.0) - gammaln(wrong + 1.0)
    just_below = np.cumsum(np.exp(log_ways + right * log_right + wrong * log_wrong))
    a = float(np.max(just_below / np.arange(1, v + 1)))
    return min(1.0, beta + 2.0 * m * delta * a)


def epsilon_lower(m: int, r: int, v: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Find the largest ε (nats) that v right of r guesses over m coins refute, at this delta.

    sup{ε : p_value(ε) < 1 - confidence}, approached from below (by at most 1e-12), so the true ε
    lies below it with probability at most 1 - confidence. 0.0 if nothing is shown. Unit and
    relation are those of the coins. Raises ValueError as `p_value` does, and unless
    0.5 < confidence < 1.
    """
    check_guesses(m, r, v)
    check_delta(delta)
    if not 0.5 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0.5 and 1; got {confidence}")

    def refuted(epsilon: float) -> bool:
        return p_value(epsilon, m, r, v, delta) < 1.0 - confidence

    return largest(refuted, 0.0, width=_WIDTH) if refuted(0.0) else 0.0
