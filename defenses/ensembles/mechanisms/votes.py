"""GNMax: the pmf of the token that wins when Gaussian noise is added to every token's votes.

With votes in units of σ, a token with v votes wins if its N(v, 1) is the largest of V. Tokens with
equal votes have equal probabilities, so a query needs one integral for each distinct number of
votes:  P = ∫ φ(z) Π_{u ≠ x} Φ(z + v − v_u) dz.

What a vote costs on this data set is itself private. arXiv 1802.08908, Theorem 6, bounds
D_α(M(D)‖M(D′)) if one token is likely to win; the reverse direction can be far above that bound.
`divergences` computes both, between the winner's pmf and its pmf under every vote that a replaced
part could have cast.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from scipy.special import log_ndtr, logsumexp

Classes = tuple[tuple[int, int], ...]  # (votes, number of tokens with these votes)

_REACH, _STEPS = 12.0, 961  # half-width of the grid around the mode, and its points


def votes(log_pmfs: torch.Tensor) -> torch.Tensor:
    """Count the members that rank each token first: (n, m, V) to (n, V), integers."""
    top = log_pmfs.argmax(dim=-1)
    counts = torch.zeros(len(top), log_pmfs.shape[-1], dtype=torch.long, device=top.device)
    return counts.scatter_add_(1, top, torch.ones_like(top))


def winning(counts: torch.Tensor, sigma: float) -> torch.Tensor:
    """Compute log of the pmf of argmax(votes + N(0, σ²)): votes (n, V) to nats (n, V), float64."""
    rows = []
    for row in counts:
        classes = classes_of(row)
        by_votes = torch.full((int(row.max()) + 1,), float("nan"), dtype=torch.float64)
        by_votes[[v for v, _ in classes]] = torch.from_numpy(log_winning(classes, sigma))
        rows.append(by_votes.to(row.device)[row])
    return torch.stack(rows) if rows else torch.empty(counts.shape, dtype=torch.float64)


def classes_of(row: torch.Tensor) -> Classes:
    """Group the tokens of one query by their votes."""
    distinct, sizes = torch.unique(row, return_counts=True)
    return tuple(zip(distinct.tolist(), sizes.tolist(), strict=True))


def log_caps(counts: torch.Tensor, sigma: float) -> torch.Tensor:
    """Bound `winning` by min(1/|{z: n_z ≥ n_x}|, Φ((n_x − n_z*)/(σ√2))): log, (n, V), nats.

    z* is the best rival. An upper bound on probabilities gives a lower bound on perplexity, as
    reported in arXiv 2201.00971, Appendix B.4.
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
    """Compute log-probabilities, nats, that one token of each class wins, shape (classes,).

    The log of the integrand is strongly concave (Φ is log-concave), so its mass lies within 12 of
    its mode. The trapezoid rule on so smooth a function is exact to rounding.
    """
    places = np.array([v for v, _ in classes]) / sigma
    sizes = np.array([size for _, size in classes], dtype=np.float64)
    log_pmf = np.empty(len(classes))
    for i, place in enumerate(places):
        gaps, rivals = place - places, sizes - (np.arange(len(sizes)) == i)
        mode = _mode(gaps, rivals)
        z = np.linspace(mode - _REACH, mode + _REACH, _STEPS)
        density = -(z**2) / 2 - np.log(2 * np.pi) / 2
        beaten = (rivals[:, None] * log_ndtr(z + gaps[:, None])).sum(axis=0)
        log_pmf[i] = logsumexp(density + beaten) + np.log(z[1] - z[0])
    total: float = logsumexp(log_pmf, b=sizes)
    log_pmf -= total
    return log_pmf


def _mode(gaps: np.ndarray, rivals: np.ndarray) -> float:
    """Find the maximum of −z²/2 + Σ rivals · log Φ(z + gap) by bisecting its falling slope."""
    low, high = 0.0, 40.0 + max(0.0, -float(gaps.min()))
    for _ in range(60):
        z = (low + high) / 2
        x = z + gaps
        slopes = np.exp(-(x**2) / 2 - np.log(2 * np.pi) / 2 - log_ndtr(x))
        rising = (rivals * slopes).sum() > z
        low, high = (z, high) if rising else (low, z)
    return low


def divergences(log_pmfs: torch.Tensor, sigma: float, alpha: float) -> torch.Tensor:
    """Compute how far another vote of each member could move the winner's pmf: (n, m, V) to
    (n, m), nats, with the remaining votes fixed."""
    counts = votes(log_pmfs)
    mine = counts.gather(1, log_pmfs.argmax(dim=-1)).tolist()
    rows = []
    for row, cast in zip(counts, mine, strict=True):
        classes = classes_of(row)
        rows.append([another_vote(classes, votes_of, sigma, alpha) for votes_of in cast])
    return torch.tensor(rows, dtype=torch.float64).reshape(log_pmfs.shape[:2])


@lru_cache(maxsize=4096)
def another_vote(classes: Classes, cast: int, sigma: float, alpha: float) -> float:
    """Maximise D_α, nats, over all tokens to which a vote for one with `cast` votes can move."""
    sizes = dict(classes)
    sizes[cast] -= 1
    return max((_moved(classes, cast, to, sigma, alpha) for to, n in sizes.items() if n), default=0)


def _moved(classes: Classes, source: int, target: int, sigma: float, alpha: float) -> float:
    """Compute D_α, nats, the larger direction, when a vote moves from a token with `source` votes
    to one with `target` votes."""
    unmoved = dict(classes)
    unmoved[source] -= 1
    unmoved[target] -= 1
    before = [*unmoved, source, target]
    after = [*unmoved, source - 1, target + 1]
    sizes = np.array([*unmoved.values(), 1, 1], dtype=np.float64)
    log_p, log_q = (_log_pmf(votes_of, sizes, sigma) for votes_of in (before, after))
    exponents = (alpha * log_p + (1 - alpha) * log_q, alpha * log_q + (1 - alpha) * log_p)
    return max(0.0, *(float(logsumexp(e, b=sizes)) / (alpha - 1) for e in exponents))


def _log_pmf(votes_of: list[int], sizes: np.ndarray, sigma: float) -> np.ndarray:
    """Return the log-probability, nats, of one token of each group; groups may have equal votes."""
    merged: dict[int, int] = {}
    for v, size in zip(votes_of, sizes, strict=True):
        merged[v] = merged.get(v, 0) + int(size)
    classes = tuple(sorted((v, size) for v, size in merged.items() if size))
    log_pmf = dict(zip((v for v, _ in classes), log_winning(classes, sigma), strict=True))
    return np.array([log_pmf.get(v, 0.0) for v in votes_of])  # 0 for a group without tokens
