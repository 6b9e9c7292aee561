"""Credible limit for ε from two error rates (Zanella-Béguelin et al. 2022, arXiv 2206.05199).

A statement about a posterior, not a confidence bound: its error rate over repeated audits is not
guaranteed (23 % instead of 5 % at FPR = FNR = 0.06 with 30 trainings each), so it never refutes a
claim. For that there is `two_rates`, which needs the same independent trainings.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, betaincinv

_NODES = 2000  # quantiles of one posterior over which the other is integrated
_WIDTH = 1e-6  # nats


def epsilon_credible(
    false_positives: int,
    controls: int,
    false_negatives: int,
    members: int,
    delta: float = 0.0,
    credibility: float = 0.95,
) -> float:
    """The ε (nats) that the posterior exceeds with probability `credibility`; 0.0 if none.

    Counts as in `two_rates.epsilon_lower`. FPR and FNR are independent with Jeffreys' prior, so
    Beta(k + 1/2, n - k + 1/2); their ε is the smallest with 1 - δ - FNR <= e^ε FPR and
    1 - δ - FPR <= e^ε FNR. (The paper also turns the attack round: then ε = 0 has posterior
    probability 0 and every limit is above 0, so that is left out.) Deterministic quadrature.
    Raises ValueError as `two_rates.epsilon_lower` does.
    """
    for k, n in ((false_positives, controls), (false_negatives, members)):
        if not 0 <= k <= n:
            raise ValueError(f"errors and trials must satisfy 0 <= k <= n; got k={k}, n={n}")
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"delta must lie between 0 and 1; got {delta}")
    if not 0.0 < credibility < 1.0:
        raise ValueError(f"credibility must lie strictly between 0 and 1; got {credibility}")

    middles = (np.arange(_NODES) + 0.5) / _NODES
    miss = betaincinv(false_negatives + 0.5, members - false_negatives + 0.5, middles)
    a, b = false_positives + 0.5, controls - false_positives + 0.5

    def at_most(epsilon: float) -> float:
        return float(np.mean(betaincc(a, b, _least(miss, epsilon, delta))))

    level = 1.0 - credibility
    if at_most(0.0) >= level:
        return 0.0
    below, above = 0.0, 1.0
    while at_most(above) < level:
        below, above = above, 2.0 * above
    while above - below > _WIDTH:
        middle = (below + above) / 2.0
        below, above = (middle, above) if at_most(middle) < level else (below, middle)
    return below


def _least(miss: NDArray[np.float64], epsilon: float, delta: float) -> NDArray[np.float64]:
    """The least FPR that (ε, δ)-DP allows beside each of these FNRs."""
    spare = 1.0 - delta - miss
    steep = 1.0 - delta - math.exp(epsilon) * miss
    return np.clip(np.maximum(steep, math.exp(-epsilon) * spare), 0.0, 1.0)
