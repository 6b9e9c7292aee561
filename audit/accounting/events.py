"""Translation of a mechanism into dp-accounting's events."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import scipy
from dp_accounting import dp_event

from audit.accounting.mechanism import Gaussians, Mechanism


def event(mechanism: Mechanism) -> Any:
    """Makes the DpEvent that dp-accounting's accountants compose, in the mechanism's relation."""
    return dp_accounting.ComposedDpEvent([_event(term) for term in mechanism.active])


def _event(term: Gaussians) -> Any:
    sigma, q, n = term.noise_multiplier, term.sampling_probability, term.records
    if not term.sampled:
        one = dp_event.GaussianDpEvent(sigma / n)
    elif n == 1:
        one = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(sigma))
    else:
        one = _mixture(sigma, q, n)
    return dp_event.SelfComposedDpEvent(one, term.count)


def _mixture(sigma: float, q: float, n: int) -> Any:
    """Makes the sum of Bin(n, q) records of norm 1, in units in which the library is exact.

    The library locates where the privacy loss crosses a value to 1e-6 in any unit, and so returns δ
    too low by up to (n/σ³)·2e-13 a release. In units `scale` times smaller that is below 1e-16.
    """
    scale = max(1.0, math.sqrt(2e3 * n / sigma**3))
    sensitivities = [scale * k for k in range(n + 1)]
    weights = scipy.stats.binom.pmf(range(n + 1), n, q).tolist()
    return dp_event.MixtureOfGaussiansDpEvent(scale * sigma, sensitivities, weights)
