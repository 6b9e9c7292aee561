"""The trade-off curve of a mechanism, on which a claim of it is tested as a whole.

Derivation: docs/methods/claims-on-a-trade-off-curve.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from audit.accounting.mechanism import Mechanism
from audit.statistics.claim_curve import EPSILONS, Curve, gaussian

_SLACK = 1e-7  # of δ: infinite mass, and the library's drift in ε, since |dδ/dε| <= 1
_ROUNDING = 2e-15  # of δ, per release: five times the largest that `pld` measured
_USUAL = 1e-3  # nats: a fifth of this interval lowers δ by less than a thousandth of itself
_PARTS = 8.0  # intervals in the standard deviation of one release's loss, where that is narrow
_POINTS = 4e5  # most intervals: about two seconds
_MIXTURE = 150.0  # so many records double the time that an interval of a mixture takes


@lru_cache(maxsize=256)
def curve_of(mechanism: Mechanism, points: float = _POINTS) -> Curve:
    """Compute the trade-off curve of a mechanism, in its relation.

    The δ of removing and of adding the unit are averaged; the larger of both would be weaker. Every
    δ is an upper bound, so the curve errs towards not refuting. points: most intervals of the
    discretised privacy loss; with fewer it is faster, and δ larger. Raises ValueError for a
    mechanism that releases nothing, or adds no noise.
    """
    if mechanism.is_gaussian or mechanism.noiseless:
        return gaussian(mechanism.mu)
    known = math.isfinite(mechanism.mu)
    unamplified = gaussian(mechanism.mu).deltas if known else np.ones_like(EPSILONS)
    return Curve(EPSILONS, np.fmin(_amplified(mechanism, points), unamplified))


def _amplified(mechanism: Mechanism, points: float) -> NDArray[np.float64]:
    """Compute the mean of both profiles at EPSILONS; NaN beyond the library's arithmetic."""
    from audit.accounting.pld import NARROWEST, deltas, sizes_of  # takes half a second

    sizes = sizes_of(mechanism)
    points /= 1.0 + max(term.records for term in mechanism.active) / _MIXTURE
    fine = min(_USUAL, sizes.narrowest / _PARTS)
    interval = max(fine, sizes.built / points, sizes.composed / points, NARROWEST)
    try:
        removed, added = deltas(mechanism, EPSILONS, interval)
    except (ArithmeticError, LookupError, ValueError):
        return np.full_like(EPSILONS, math.nan)
    error = _SLACK + _ROUNDING * (1 + sum(term.count for term in mechanism.active))
    return np.maximum(0.0, (removed + added) / 2.0) + error
