"""GNMax: which token wins when Gaussian noise is added to every token's votes.

With votes in units of σ, a token with v votes wins if its N(v, 1) is the largest of V. Tokens with
as many votes share one probability, so a query needs one integral for each number of votes that
occurs:  P = ∫ φ(z) Π_others Φ(z + v − v_other) dz.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from scipy.special import log_ndtr, logsumexp

Classes = tuple[tuple[int, int], ...]  # (votes, how many tokens have so many)

_REACH, _STEPS = 12.0, 961  # half the width of the grid around the mode, and its points


def votes(log_pmfs: torch.Tensor) -> torch.Tensor:
    """How many of m members put each token first: (n, m, V) to (n, V), whole numbers."""
    top = log_pmfs.argmax(dim=-1)
    counts = torch.zeros(len(top), log_pmfs.shape[-1], dtype=torch.long, device=top.device)
    return counts.scatter_add_(1, top, torch.ones_like(top))


def winning(counts: torch.Tensor, sigma: float) -> torch.Tensor:
    """log of the pmf of argmax(votes + N(0, σ²)): votes (n, V) to nats (n, V), float64."""
    rows = []
    for row in counts:
        classes = classes_of(row)
        by_votes = torch.full((int(row.max()) + 1,), float("nan"), dtype=torch.float64)
        by_votes[[v for v, _ in classes]] = torch.from_numpy(log_winning(classes, sigma))
        rows.append(by_votes.to(row.device)[row])
    return torch.stack(rows) if rows else torch.empty(counts.shape, dtype=torch.float64)


def classes_of(row: torch.Tensor) -> Classes:
    """The numbers of votes that occur in one query, and how many tokens have each."""
    found, sizes = torch.unique(row, return_counts=True)
    return tuple(zip(found.tolist(), sizes.tolist(), strict=True))


def log_caps(counts: torch.Tensor, sigma: float) -> torch.Tensor:
    """log of min(1/|{z: n_z ≥ n_x}|, Φ((n_x − n_z*)/(σ√2))), z* the best rival: (n, V), nats.

    An upper bound on `winning`, so that a perplexity by it is a lower bound: what arXiv 2201.00971,
    Appendix B.4, reports.
    """
    best = counts.topk(min(2, counts.shape[1]), dim=1).values
    rival = torch.where(counts == best[:, :1], best[:, -1:], best[:, :1])
    ordered = counts.sort(dim=1).values
    above = counts.shape[1] - torch.searchsorted(ordered, counts)
    pairwise = torch.special.log_ndtr((counts - rival).double() / (sigma * math.sqrt(2)))
    if counts.shape[1] == 1:
        return torch.zeros_like(pairwise)
    return torch.minimum(-above.double().log(), pairwise)


@lru_cache(maxsize=4096)
def log_winning(classes: Classes, sigma: float) -> np.ndarray:
    """log-probability, nats, that one given token of each class wins, shape (classes,).

    The log of the integrand is strongly concave (Φ is log-concave), so it lies within 12 of its
    mode; the trapezoid rule on so smooth a bump is exact to rounding.
    """
    places = np.array([v for v, _ in classes]) / sigma
    sizes = np.array([size for _, size in classes], dtype=np.float64)
    found = np.empty(len(classes))
    for i, place in enumerate(places):
        gaps, rivals = place - places, sizes - (np.arange(len(sizes)) == i)
        mode = _mode(gaps, rivals)
        z = np.linspace(mode - _REACH, mode + _REACH, _STEPS)
        density = -(z**2) / 2 - np.log(2 * np.pi) / 2
        beaten = (rivals[:, None] * log_ndtr(z + gaps[:, None])).sum(axis=0)
        found[i] = logsumexp(density + beaten) + np.log(z[1] - z[0])
    total: float = logsumexp(found, b=sizes)
    found -= total
    return found


def _mode(gaps: np.ndarray, rivals: np.ndarray) -> float:
    """Where −z²/2 + Σ rivals · log Φ(z + gap) is largest: its slope falls, and is bisected."""
    low, high = 0.0, 40.0 + max(0.0, -float(gaps.min()))
    for _ in range(60):
        z = (low + high) / 2
        x = z + gaps
        slopes = np.exp(-(x**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(x))
        rising = (rivals * slopes).sum() > z
        low, high = (z, high) if rising else (low, z)
    return low
