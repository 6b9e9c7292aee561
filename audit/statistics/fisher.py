"""Fisher's combination of independent p-values (Statistical Methods for Research Workers, 1932)."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike


def combined_p_value(p_values: ArrayLike) -> float:
    """Combine p-values into one: P(χ² with 2n degrees of freedom >= −2 Σ log p).

    p_values: (n,), n >= 1, of independent tests. Each may be too large, as those of discrete tests
    are; the combined one is then too large as well. Raises ValueError for none, or one outside [0,
    1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not len(p) or not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError(f"p-values must be one or more numbers in [0, 1]; got {p}")
    with np.errstate(divide="ignore"):  # log 0: one impossible result makes all impossible
        return float(scipy.stats.combine_pvalues(p).pvalue)
