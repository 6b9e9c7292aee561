"""One random stream per (seed, purpose …), so that no part of a run can move another's numbers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def derived_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed that depends on `seed` and every word of `purpose`, and on nothing else."""
    words = "\x1f".join(str(word) for word in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The numpy generator of `derived_seed(seed, *purpose)`."""
    import numpy as np

    return np.random.default_rng(derived_seed(seed, *purpose))
