"""Independent random streams per (seed, purpose …), so parts of a run cannot affect each other."""

from __future__ import annotations

import numpy as np

from audit.core.digest import sha256_of
from audit.core.noise import NoiseStream, SystemStream


def derived_seed(seed: int, *purpose: str | int) -> int:
    """Derive a 63-bit seed from `seed` and the words of `purpose`."""
    words = "\x1f".join(str(word) for word in (seed, *purpose))
    return int(sha256_of(words)[:16], 16) >> 1


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """Make the numpy generator of `derived_seed(seed, *purpose)`."""
    return np.random.default_rng(derived_seed(seed, *purpose))


def noise_stream(key: str, purpose: str, source: str) -> NoiseStream:
    """Open a stream of privacy noise, unique to each key and purpose.

    key: hash of everything that determines a training. Trainings that differ draw independent
        noise; otherwise the noise of two released models could be subtracted.
    source: "seed" for NumPy's generator under a seed from key and purpose, which is reproducible;
        "system" for a cryptographic generator under the operating system's entropy.
    """
    if source == "system":
        return SystemStream()
    own = int(sha256_of(f"{key} {purpose}"), 16)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(own)))
