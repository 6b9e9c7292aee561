"""One random stream per (seed, purpose …), so that no part of a run can move another's numbers."""

from __future__ import annotations

import hashlib
import secrets

import numpy as np


def derived_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed that depends on `seed` and every word of `purpose`, and on nothing else."""
    words = "\x1f".join(str(word) for word in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The numpy generator of `derived_seed(seed, *purpose)`."""
    return np.random.default_rng(derived_seed(seed, *purpose))


def noise_stream(key: str, purpose: str, source: str) -> np.random.Generator:
    """Noise that protects: 256 bits of seed, of its own for each key and purpose.

    key: of all that determines a training. Two that differ in anything draw independent noise: with
    the same draws, the noise of two released models could be subtracted away.
    source: "seed", these words; "system", the operating system's entropy.
    """
    words = hashlib.sha256(f"{key} {purpose}".encode()).digest()
    own = secrets.randbits(256) if source == "system" else int.from_bytes(words, "big")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(own)))
