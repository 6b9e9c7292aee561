"""Whether simulated values follow a law, at a chance of error that no suite notices."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def normal(values: torch.Tensor, deviation: float) -> bool:
    """Whether values are N(0, deviation²) by mean, chi-square and fourth moment; 4.5 sigma."""
    z, n = values.double().flatten() / deviation, values.numel()
    return all(
        abs(float(((z**power) - mean).sum())) < 4.5 * (n * variance) ** 0.5
        for power, mean, variance in ((1, 0, 1), (2, 1, 2), (4, 3, 96))
    )


def binomial(sizes: Sequence[int], n: int, q: float) -> bool:
    """Whether sizes vary about n·q as those of Poisson batches do; chance of an error: 1e-4."""
    square = sum((size - n * q) ** 2 for size in sizes) / (n * q * (1 - q))
    return abs(square - len(sizes)) < 4 * (2 * len(sizes)) ** 0.5
