"""Holm's step-down correction for several tests (Scandinavian Journal of Statistics 6, 1979)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def adjusted_p_values(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values so that rejecting those below γ errs anywhere with probability <= γ.

    p_values: (tests,), one-sided or two-sided, dependent or not. Returns (tests,) in the same
    order, each at least its own p-value and at most 1. Raises ValueError unless one-dimensional
    with all values in [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"p-values must be one-dimensional; got shape {p.shape}")
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError("p-values must lie in [0, 1]")
    order = np.argsort(p, kind="stable")
    still_open = len(p) - np.arange(len(p))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(still_open * p[order]))
    return adjusted
