"""A credible limit for ε from two error rates (Zanella-Béguelin et al. 2022, arXiv 2206.05199).

A statement about a posterior, not a confidence bound: its error rate over repeated audits is not
guaranteed (23 % instead of 5 % at FPR = FNR = 0.06 with 30 trainings each), so it never refutes a
claim. For that there is `two_rates`, which needs the same independent trainings.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, betaincinv

from audit.statistics.checks import check_delta
from audit.statistics.search import last_negative

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
    """Compute the ε (nats) that the posterior exceeds with probability `credibility`.

    Counts as in `two_rates.epsilon_lower`. FPR and FNR are independent with Jeffreys' prior, so
    Beta(k + 1/2, n - k + 1/2); their ε is the smallest with 1 - δ - FNR <= e^ε FPR and
    1 - δ - FPR <= e^ε FNR. (The paper also inverts the attack: then ε = 0 has posterior
    probability 0 and every limit is above 0, so that is left out.) Deterministic quadrature.
    0.0 if nothing is shown. Raises ValueError as `two_rates.epsilon_lower` does.
    """
    for k, n in ((false_positives, controls), (false_negatives, members)):
        if not 0 <= k <= n:
            raise ValueError(f"errors and trials must satisfy 0 <= k <= n; got k={k}, n={n}")
    check_delta(delta)
    if not 0.0 < credibility < 1.0:
        raise ValueError(f"credibility must lie strictly between 0 and 1; got {credibility}")

    midpoints = (np.arange(_NODES) + 0.5) / _NODES
    miss = betaincinv(false_negatives + 0.5, members - false_negatives + 0.5, midpoints)
    a, b = false_positives + 0.5, controls - false_positives + 0.5

    def spared(epsilon: float) -> float:
        at_most = np.mean(betaincc(a, b, _least_false_positive_rate(miss, epsilon, delta)))
        return float(at_most) - (1.0 - credibility)

    return last_negative(spared, 0.0, _WIDTH) if spared(0.0) < 0.0 else 0.0


def _least_false_positive_rate(
    miss: NDArray[np.float64], epsilon: float, delta: float
) -> NDArray[np.float64]:
    """Compute the least FPR that (ε, δ)-DP allows beside each of these FNRs."""
    spare = 1.0 - delta - miss
    steep = 1.0 - delta - math.exp(epsilon) * miss
    return np.clip(np.maximum(steep, math.exp(-epsilon) * spare), 0.0, 1.0)
