"""Streams of privacy noise: reproducible from a seed, or of cryptographic strength."""

from __future__ import annotations

import hashlib
import secrets
from typing import Protocol, final

import numpy as np
from scipy.special import ndtri

Size = int | tuple[int, ...]


class NoiseStream(Protocol):
    """What draws the noise and the sampling of a mechanism; a numpy Generator is one."""

    def random(self, size: Size) -> np.ndarray:
        """Draw uniform numbers in [0, 1), float64."""

    def standard_normal(self, size: Size) -> np.ndarray:
        """Draw N(0, 1), float64."""

    def laplace(self, loc: float, scale: float, size: Size) -> np.ndarray:
        """Draw Laplace noise, float64."""


@final
class SystemStream:
    """Draws from SHAKE-256 under 256 bits of the operating system's entropy.

    A fast generator would not do for a real release: what is released is noise plus something that
    an attacker may know, and the state of a fast generator can be recovered from its output.
    """

    def __init__(self, key: bytes | None = None) -> None:
        """key: 32 bytes in place of fresh entropy, for tests."""
        self._key = secrets.token_bytes(32) if key is None else key
        self._calls = 0

    def random(self, size: Size) -> np.ndarray:
        return ((self._words(size) >> np.uint64(11)) * 2.0**-53).reshape(size)

    def standard_normal(self, size: Size) -> np.ndarray:
        """Draw by inverse CDF of 63 bits; the last bit is the sign. Tails end at 9.1 σ."""
        words = self._words(size)
        lower = ((words >> np.uint64(1)) + 0.5) * 2.0**-64  # uniform on (0, ½)
        normal: np.ndarray = np.where(words & np.uint64(1), ndtri(lower), -ndtri(lower))
        return normal.reshape(size)

    def laplace(self, loc: float, scale: float, size: Size) -> np.ndarray:
        return loc + scale * laplace_of(self._words(size)).reshape(size)

    def _words(self, size: Size) -> np.ndarray:
        """Draw uint64 words, shape (n,); every call has a number, so none repeats another."""
        name = self._key + self._calls.to_bytes(16, "little")
        self._calls += 1
        return words(name, int(np.prod(size)))


def words(seed: bytes, count: int) -> np.ndarray:
    """Expand a seed to uniform uint64 words by SHAKE-256: shape (count,)."""
    return np.frombuffer(hashlib.shake_256(seed).digest(8 * count), dtype="<u8")


def laplace_of(bits: np.ndarray) -> np.ndarray:
    """Turn uint64 words into Laplace noise of scale 1 by inverse CDF, float64."""
    magnitude = -np.log(((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)  # uniform on (0, 1]
    noise: np.ndarray = np.where(bits & np.uint64(1), magnitude, -magnitude)
    return noise
