"""Window-based comparison of a release with its base model (WBC, arXiv 2601.02751).

A few tokens that the release finds unlikely can outweigh all others in a mean. Here every window of
consecutive tokens has one vote, however much its tokens have moved.
"""

from __future__ import annotations

import numpy as np

SIZES = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)  # the authors' configuration


def wbc(delta: np.ndarray) -> float:
    """Compute the share of windows whose summed delta is above 0, averaged over the sizes.

    No unit; higher = more likely trained on. A sum of exactly 0 counts half. A size larger than the
    text is the whole text, as often as that happens.

    delta: shape (t,), nats: log-probability of each token, release less base.
    """
    totals = np.concatenate([[0.0], np.cumsum(delta)])
    sizes = [min(size, len(delta)) for size in SIZES]
    signs = [np.sign(totals[size:] - totals[:-size]) for size in sizes]
    return float(1 + sum(some.sum() / len(some) for some in signs) / len(signs)) / 2
