"""An upper bound on the noise of a training, if its mechanism is of the family claimed."""

from __future__ import annotations

import math
from dataclasses import replace

from audit.accounting.calibration import LARGEST, LEAST
from audit.accounting.mechanism import Mechanism
from audit.accounting.trade_off import curve_of
from audit.statistics.claim_curve import is_refuted
from audit.statistics.search import smallest

_POINTS = 1e5  # a quarter of the time of a whole curve; a larger δ gives a larger bound
_WIDTH = 5e-3  # relative


def sigma_upper(
    mechanism: Mechanism, coins: int, guesses: int, right: int, level: float = 0.05
) -> float:
    """Compute σ_u = inf{σ : p_σ < level}: the noise multiplier is at most this; inf if none is.

    It assumes that the training is of the claimed family: q, T and all else as claimed, and only
    the noise unknown. Then the true σ is at most σ_u with probability at least 1 - level, because
    more noise is post-processing. σ is that of the first term; the noise of further ones keeps its
    ratio to it. coins, guesses, right: m, r and v, as for `claim_curve.p_value`. Rounded up, by at
    most half a percent. It takes seconds, and is never an ε that needs no hypothesis.
    """

    def refuted(log_sigma: float) -> bool:
        curve = curve_of(with_noise(mechanism, math.exp(log_sigma)), _POINTS)
        return is_refuted(curve, coins, guesses, right, level)

    low, high = math.log(LEAST), math.log(LARGEST)
    if not refuted(high):
        return math.inf
    here = math.log(mechanism.terms[0].noise_multiplier)
    while low < here < high:  # few σ far from the claimed one, where curves take longest
        if refuted(here):
            high, here = here, here - 1.0
        else:
            low = here
    return math.exp(smallest(refuted, low, high, width=_WIDTH))


def with_noise(mechanism: Mechanism, sigma: float) -> Mechanism:
    """Give the first term this noise multiplier, and scale that of all others alike."""
    factor = sigma / mechanism.terms[0].noise_multiplier
    terms = (replace(t, noise_multiplier=t.noise_multiplier * factor) for t in mechanism.terms)
    return replace(mechanism, terms=tuple(terms))
