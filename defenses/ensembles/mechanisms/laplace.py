"""The Laplace mechanism on a mean of pmfs: its Rényi divergence, its noise and its output.

The mean of k pmfs moves by v = (h_i − h'_i)/k when part i is replaced, and by v = (h_i − mean of
the remaining parts)/k when it is removed. In both cases Σ v⁺ = Σ v⁻ ≤ 1/k, because pmfs sum to 1.
By the convexity argument of `audit.accounting.laplace`, D_α ≤ 2·g(1/(kb)) for noise of scale b. Two
parts that are certain of different tokens reach this bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from audit.accounting import laplace_divergence
from audit.core.noise import laplace_of, words

_HALVINGS = 200


def mean_divergence(scale: float, parts: int, alpha: float) -> float:
    """Compute the bound 2·g(1/(kb)), nats, for one mean of k pmfs with noise of scale b."""
    return 2 * laplace_divergence(1 / (parts * scale), alpha)


def scale_for(divergence: float, parts: int, alpha: float) -> float:
    """Find the least scale b, to 2⁻⁵⁰, with `mean_divergence` at most this many nats."""
    low, high = -700.0, 700.0  # log b
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = mean_divergence(math.exp(middle), parts, alpha) <= divergence
        low, high = (low, middle) if enough else (middle, high)
    return math.exp(high)


def noised(means: torch.Tensor, scale: float, floor: float, seeds: Sequence[bytes]) -> torch.Tensor:
    """Add noise to means (n, V), clamp to `floor` > 0 and renormalise: log-pmfs, nats.

    Noise is drawn from SHAKE-256. A fast generator would not do: the release is the noise plus a
    mean that an attacker may know, and the state of such a generator follows from its output.
    """
    drawn = [laplace_of(words(seed, means.shape[1])) for seed in seeds]
    noise = np.stack(drawn) if seeds else 0.0
    values = means + scale * torch.as_tensor(noise, dtype=means.dtype, device=means.device)
    return torch.log_softmax(values.clamp(min=floor).log(), dim=-1)
