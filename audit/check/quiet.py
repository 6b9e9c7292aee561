"""The part of the released sums in which there is nothing but noise.

Where no two units share a coordinate, it is the coordinates of no unit. Else it is the orthogonal
complement of all units' clipped gradients. Derivation: docs/methods/examining-an-engine.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from audit.check.units import Floats


@dataclass(frozen=True)
class Tensors:
    """Noise by tensor, and what is due where its entries are not independent.

    parts: (T, |S|), the entries of each tensor.
    means, variances: of each tensor's sum of squares in one step, in units of σC.
    overlaps: (i, j) to the mean, in one step, of Σ_k parts_i[k]·parts_j[k] over shared places k.
    """

    parts: tuple[Floats, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...]
    overlaps: dict[tuple[int, int], float]


@dataclass(frozen=True)
class Quiet:
    """Noise alone. values: (T, d), independent N(0, σ²C²) is due. tensors: the same by tensor."""

    values: Floats
    tensors: Tensors


def coordinates(sums: Floats, gradients: Floats, sizes: Sequence[int]) -> Quiet:
    """Keep the coordinates in which no unit has a gradient."""
    unused = ~np.any(gradients != 0, axis=0)
    parts = tuple(sums[:, place & unused] for place in _places(sizes))
    counts = tuple(float(part.shape[1]) for part in parts)
    variances = tuple(2.0 * count for count in counts)
    return Quiet(
        sums[:, unused], Tensors(parts, counts, variances, dict.fromkeys(_pairs(parts), 0.0))
    )


def complement(sums: Floats, gradients: Floats, sizes: Sequence[int]) -> Quiet:
    """Project onto the orthogonal complement of the gradients.

    With P = QQᵀ the projection onto the gradients, the entries S of a tensor have the covariance
    σ²C²(I − P_SS); tensors overlap by −P.
    """
    units = len(gradients)
    reflectors, scales = torch.geqrf(torch.from_numpy(gradients.T.copy()))
    turned = torch.ormqr(reflectors, scales, torch.from_numpy(sums.T.copy()), transpose=True)
    basis = torch.linalg.householder_product(reflectors, scales).numpy()
    rest = sums - (sums @ basis) @ basis.T
    places = _places(sizes)
    parts = tuple(rest[:, place] for place in places)
    bases = [basis[place] for place in places]
    traces = [float((part**2).sum()) for part in bases]
    squares = [float(((part.T @ part) ** 2).sum()) for part in bases]
    means = tuple(len(part) - trace for part, trace in zip(bases, traces, strict=True))
    variances = tuple(
        2.0 * (len(part) - 2.0 * trace + square)
        for part, trace, square in zip(bases, traces, squares, strict=True)
    )
    overlaps = {(i, j): -_shared(bases[i], bases[j]) for i, j in _pairs(parts)}
    return Quiet(turned.numpy()[units:].T, Tensors(parts, means, variances, overlaps))


def _shared(one: Floats, other: Floats) -> float:
    n = min(len(one), len(other))
    return float((one[:n] * other[:n]).sum())


def _places(sizes: Sequence[int]) -> list[NDArray[np.bool_]]:
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return [owner == i for i in range(len(sizes))]


def _pairs(parts: Sequence[Floats]) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(parts)) for j in range(i)]
