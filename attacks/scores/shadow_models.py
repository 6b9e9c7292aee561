"""Scores that need shadow models: LiRA and RMIA; higher = more likely trained on.

φ of a candidate under a model: the mean of its tokens' log-probabilities, nats. LiRA and RMIA use
the logit-scaled confidence of a classifier; a language model has none, so φ replaces it.
"""

from __future__ import annotations

import math

import numpy as np

RESOLUTION = 1e-5  # nats: smaller deviations are rounding errors, and are raised to this


def lira_offline(phi: np.ndarray, shadows: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Compute (φ − μ_out)/σ_out, shape (n,), no unit (arXiv 2112.03570, offline).

    phi: shape (n,), nats: φ of each candidate under the target.
    shadows: shape (S, n), nats: φ under each shadow model.
    present: shape (S, n), bool: whether the shadow model was trained on the candidate.
    NaN: all shadow models were trained on the candidate.
    """
    return _deviations(phi, shadows, ~present)[0]


def lira_online(phi: np.ndarray, shadows: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Compute log N(φ; μ_in, σ_in) − log N(φ; μ_out, σ_out), (n,), nats (arXiv 2112.03570).

    Arguments as in `lira_offline`. NaN: all or no shadow models were trained on the candidate.
    """
    inside, sigma_in = _deviations(phi, shadows, present)
    outside, sigma_out = _deviations(phi, shadows, ~present)
    ratio: np.ndarray = (outside**2 - inside**2) / 2 + math.log(sigma_out / sigma_in)
    return ratio


def _deviations(phi: np.ndarray, shadows: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, float]:
    """Compute ((φ − μ)/σ, σ) over the used shadows: μ for each candidate, σ pooled over all.

    The paper pools σ for few shadows. A common σ does not change the ranking by the offline score.
    """
    moved = phi - shadows  # exactly 0 for equal values
    used = used & ~np.isnan(moved)
    count = used.sum(axis=0)
    total = moved.sum(axis=0, where=used)
    mean = np.divide(total, count, out=np.full(len(phi), np.nan), where=count > 0)
    squares = np.square(moved - mean).sum(where=used)
    freedom = np.maximum(count - 1, 0).sum()
    sigma = max(math.sqrt(squares / max(freedom, 1)), RESOLUTION)
    return mean / sigma, sigma


def rmia(
    phi: np.ndarray,
    shadows: np.ndarray,
    population: np.ndarray,
    population_shadows: np.ndarray,
    gamma: float,
) -> np.ndarray:
    """Compute the share of population texts z with LR(x, z) ≥ γ, (n,) (arXiv 2312.03262).

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
    """Compute φ − log mean exp φ of the shadows; NaN if one of them is NaN."""
    moved = phi - shadows  # exactly 0 for equal values
    least = moved.min(axis=0)  # factored out to avoid overflow
    lift: np.ndarray = least - np.log(np.exp(least - moved).mean(axis=0))
    return lift
