"""Laws of sums of independent values on a grid, by Fourier transform."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import fft

Floats = NDArray[np.float64]
_REACH = 40.0  # standard deviations above the mean beyond which nothing is left


def on_grid(values: Floats, masses: Floats) -> Floats:
    """Move the mass of each value, at least 0, to the whole numbers around it; keep the mean."""
    below = np.floor(values).astype(np.int64)
    above = masses * (values - below)
    kept, moved = np.bincount(below, masses - above), np.bincount(below + 1, above)
    return np.asarray(np.pad(kept, (0, 1)) + moved, dtype=np.float64)


def sum_law(masses: Floats, count: int) -> Floats:
    """Compute P[sum = 0, 1, 2, …] of `count` independent values with P[value = k] = masses[k].

    Rounding errors are near 1e-16 in each place; the law is cut far above its mean.
    """
    places = np.arange(masses.size)
    mean = float(masses @ places)
    spread = float(np.sqrt(count * (masses @ (places - mean) ** 2)))
    reach = count * mean + _REACH * spread + masses.size
    size = fft.next_fast_len(int(min(count * (masses.size - 1) + 1, reach)), real=True)
    return np.asarray(np.maximum(0.0, fft.irfft(fft.rfft(masses, size) ** count, size)))
