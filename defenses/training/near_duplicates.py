"""Finds near-duplicates among texts, as pipelines do that drop them before a training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_LENGTH = 5  # characters of a shingle
_ALIKE = 4 / 5  # of all shingles of two texts, which near-duplicates share
_BANDS, _ROWS = 16, 4  # of equal texts all bands are equal; of barely alike ones none in 5,000
_FACTORS = np.random.default_rng(0).integers(1 << 63, size=(_BANDS * _ROWS, 1), dtype=np.uint64)


def different(texts: Sequence[str]) -> list[int]:
    """Return the places of the texts that are no near-duplicate of one that is kept before."""
    kept: dict[int, np.ndarray] = {}
    places: dict[tuple[int, bytes], list[int]] = {}
    for place, text in enumerate(texts):
        own = _shingles(text)
        bands = _bands(own)
        near = {other for band in bands for other in places.get(band, ())}
        if any(_are_alike(own, kept[other]) for other in near):
            continue
        kept[place] = own
        for band in bands:
            places.setdefault(band, []).append(place)
    return list(kept)


def _shingles(text: str) -> np.ndarray:
    """Hash all runs of a few characters, each once."""
    codes = np.frombuffer(text.ljust(_LENGTH).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    runs = np.lib.stride_tricks.sliding_window_view(codes.astype(np.uint64), _LENGTH)
    hashes = np.zeros(len(runs), dtype=np.uint64)
    for column in runs.T:
        hashes = (hashes + column + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    return np.unique(hashes)


def _bands(shingles: np.ndarray) -> list[tuple[int, bytes]]:
    """Compute the bands of MinHash: two texts have one in common where they are much alike."""
    least = ((_FACTORS | np.uint64(1)) * shingles[None, :]).min(axis=1)
    return [(i, row.tobytes()) for i, row in enumerate(least.reshape(_BANDS, _ROWS))]


def _are_alike(one: np.ndarray, other: np.ndarray) -> bool:
    common = np.intersect1d(one, other, assume_unique=True).size
    return bool(common >= _ALIKE * (one.size + other.size - common))
