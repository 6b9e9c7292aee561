"""Membership scores as in their papers; higher = more likely trained on.

log_probs: shape (t,), nats: log-probability of each token of one candidate.
φ of a candidate under a model: the mean of its log_probs. LiRA and RMIA use the logit-scaled
confidence of a classifier; a language model has none, so φ replaces it.
"""

from __future__ import annotations

import math
from zlib import compress

import numpy as np

RESOLUTION = 1e-5  # nats: smaller deviations are rounding errors, and are raised to this
RULED_OUT = -1e3  # nats: replaces φ = −∞ when models are compared


def min_k(log_probs: np.ndarray, k: float) -> float:
    """Averages the lowest share k of values, at least one: Min-K% (arXiv 2310.16789)."""
    n = max(1, int(k * len(log_probs)))
    return float(np.partition(log_probs, n - 1)[:n].mean())


def min_k_plus_plus(log_probs: np.ndarray, moments: np.ndarray, k: float) -> float:
    """Computes Min-K%++: Min-K% of (log p − μ)/σ, no unit (arXiv 2404.02936).

    moments: shape (2, t), nats: μ and σ of log p(z), z ~ p. A uniform p scores 0.
    """
    mean, deviation = moments
    return min_k((log_probs - mean) / np.maximum(deviation, RESOLUTION), k)


def zlib(log_probs: np.ndarray, text: str) -> float:
    """Divides the summed log-probability by the compressed length, nats/byte (arXiv 2012.07805)."""
    return float(log_probs.sum()) / len(compress(text.encode()))


def lira_offline(phi: np.ndarray, shadows: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Computes (φ − μ_out)/σ_out, shape (n,), no unit (arXiv 2112.03570, offline).

    phi: shape (n,), nats: φ of each candidate under the target.
    shadows: shape (S, n), nats: φ under each shadow model.
    present: shape (S, n), bool: whether the shadow model was trained on the candidate.
    NaN: all shadow models were trained on the candidate.
    """
    return _deviations(phi, shadows, ~present)[0]


def lira_online(phi: np.ndarray, shadows: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Computes log N(φ; μ_in, σ_in) − log N(φ; μ_out, σ_out), (n,), nats (arXiv 2112.03570).

    Arguments as in `lira_offline`. NaN: all or no shadow models were trained on the candidate.
    """
    inside, sigma_in = _deviations(phi, shadows, present)
    outside, sigma_out = _deviations(phi, shadows, ~present)
    ratio: np.ndarray = (outside**2 - inside**2) / 2 + math.log(sigma_out / sigma_in)
    return ratio


def _deviations(phi: np.ndarray, shadows: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, float]:
    """Computes ((φ − μ)/σ, σ) over the used shadows: μ for each candidate, σ pooled over all.

    The paper pools σ for few shadows. A common σ does not change the ranking by the offline score.
    """
    moved = _moved(phi, shadows)
    used = used & ~np.isnan(moved)
    count = used.sum(axis=0)
    total = moved.sum(axis=0, where=used)
    mean = np.divide(total, count, out=np.full(len(phi), np.nan), where=count > 0)
    squares = np.square(moved - mean).sum(where=used)
    freedom = np.maximum(count - 1, 0).sum()
    sigma = max(math.sqrt(squares / max(freedom, 1)), RESOLUTION)
    return mean / sigma, sigma


def _moved(phi: np.ndarray, shadows: np.ndarray) -> np.ndarray:
    """Subtracts φ of each shadow from φ, shape (S, n): exactly 0 for equal values."""
    moved: np.ndarray = np.maximum(phi, RULED_OUT) - np.maximum(shadows, RULED_OUT)
    return moved


def rmia(
    phi: np.ndarray,
    shadows: np.ndarray,
    population: np.ndarray,
    population_shadows: np.ndarray,
    gamma: float,
) -> np.ndarray:
    """Computes the share of population texts z with LR(x, z) ≥ γ, (n,) (arXiv 2312.03262).

    ln LR(x, z) = [φ(x) − φ̄(x)] − [φ(z) − φ̄(z)], where φ̄ is the log of the mean of e^φ over all
    shadows. Everything is in nats.
    phi: shape (n,). shadows: shape (S, n).
    population: shape (m,): φ of texts never trained on. population_shadows: shape (S, m).
    NaN: not read, or m = 0.
    """
    lift = _lift(phi, shadows)
    against = _lift(population, population_shadows)
    against = np.sort(against[~np.isnan(against)])
    if not len(against):
        return np.full(len(phi), np.nan)
    passed = np.searchsorted(against, lift - math.log(gamma), side="right") / len(against)
    return np.where(np.isnan(lift), np.nan, passed)


def _lift(phi: np.ndarray, shadows: np.ndarray) -> np.ndarray:
    """Computes φ − log mean exp φ of the shadows; NaN if one of them is NaN."""
    moved = _moved(phi, shadows)
    least = moved.min(axis=0)  # factored out to avoid overflow
    lift: np.ndarray = least - np.log(np.exp(least - moved).mean(axis=0))
    return lift
