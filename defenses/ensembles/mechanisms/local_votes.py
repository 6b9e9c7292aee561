"""Data-dependent ε of GNMax's votes: itself private, so only the auditor sees it.

arXiv 1802.08908, Theorem 6, bounds D_α(M(D)‖M(D′)) if one token is likely to win; the reverse
direction can be far above that bound. This module computes both directions, between the winner's
pmf and its pmf under every vote that a replaced part could have cast. The result depends on the
votes of the remaining parts, so it is itself private.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from scipy.special import logsumexp

from defenses.ensembles.mechanisms.votes import Classes, classes_of, log_winning, votes


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
