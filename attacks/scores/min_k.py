"""Min-K%, Min-K%++ and Min-K%++ beside the base model; higher = more likely trained on.

log_probs: shape (t,), nats: log-probability of each token of one candidate.
moments: shape (2, t), nats: mean μ and standard deviation σ of log p(z), z ~ p, for the
    distribution p of each token.
k: share of the least likely tokens that are averaged, at least one of them.
"""

from __future__ import annotations

import numpy as np

RESOLUTION = 1e-5  # nats: smaller deviations are rounding errors, and are raised to this


def min_k(log_probs: np.ndarray, k: float) -> float:
    """Average the lowest share k of values, at least one (arXiv 2310.16789)."""
    n = max(1, int(k * len(log_probs)))
    return float(np.sort(log_probs)[:n].mean())


def min_k_plus_plus(log_probs: np.ndarray, moments: np.ndarray, k: float) -> float:
    """Compute Min-K% of (log p − μ)/σ, no unit (arXiv 2404.02936). A uniform p scores 0."""
    mean, deviation = moments
    return min_k((log_probs - mean) / np.maximum(deviation, RESOLUTION), k)
