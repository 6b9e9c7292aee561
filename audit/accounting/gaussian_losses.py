"""Privacy loss of one noisy sum of sampled records, much faster than by dp-accounting itself.

σ: the noise over the clipping norm. q: the sampling probability. n: records of the unit. way:
REMOVE, ADD or REPLACE, as the library names them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from dp_accounting import dp_event
from dp_accounting.pld.privacy_loss_mechanism import (
    AdjacencyType,
    GaussianPrivacyLoss,
    MixtureGaussianPrivacyLoss,
)
from numpy.typing import NDArray

from audit.accounting.privacy_loss import Losses

_LARGE = 500.0  # nats: a loss whose exponential is not computed, as it could overflow
_NEWTON, _SETTLED = 60, 1e-14  # most steps; the relative step at which they end


def event(sigma: float, q: float, n: int) -> Any:
    """Make dp-accounting's event of one release.

    Of several sampled records it is the sum of Bin(n, q) records of norm 1, in units in which the
    library is exact: it locates where the privacy loss crosses a value to 1e-6 in any unit, and so
    returns δ too low by up to (n/σ³)·2e-13 a release. In units `scale` times smaller that is below
    1e-16.
    """
    if q == 1.0:
        return dp_event.GaussianDpEvent(sigma / n)
    if n == 1:
        return dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(sigma))
    scale = max(1.0, math.sqrt(2e3 * n / sigma**3))
    sensitivities = [scale * k for k in range(n + 1)]
    weights = scipy.stats.binom.pmf(range(n + 1), n, q).tolist()
    return dp_event.MixtureOfGaussiansDpEvent(scale * sigma, sensitivities, weights)


def losses(sigma: float, q: float, n: int, way: str, interval: float) -> Losses:
    """Discretise the loss by connecting dots (Doroshenko et al. 2022, arXiv 2207.04380)."""
    low, deltas = _deltas(sigma, q, n, way, interval)
    falls = -np.diff(np.minimum.accumulate(deltas))
    up, down = np.append(0.0, falls), np.append(falls, 0.0)
    masses = (up * math.exp(interval) - down) / math.expm1(interval)
    masses[0] += 1.0 - deltas[0]
    return Losses(low, np.maximum(0.0, masses), float(deltas[-1]))


def _deltas(
    sigma: float, q: float, n: int, way: str, interval: float
) -> tuple[int, NDArray[np.float64]]:
    """Compute (k, δ of one release at ε = (k, k + 1, …)·interval), by the library's own formula.

    The library does this for one ε at a time, which is tens of times slower.
    """
    mixture = _mixture(sigma, q, n, way) if q < 1.0 and n > 1 else None
    loss: Any = mixture or GaussianPrivacyLoss(
        sigma, sampling_prob=q, adjacency_type=AdjacencyType[way]
    )
    bounds = loss.connect_dots_bounds()
    low = math.floor(bounds.epsilon_lower / interval)
    high = math.ceil(bounds.epsilon_upper / interval)
    epsilons = np.arange(low, high + 1) * interval
    x = _place_in(mixture, epsilons) if mixture else _place(epsilons, sigma, q, way)
    deltas = loss.mu_upper_cdf(x) - np.exp(epsilons + loss.mu_lower_log_cdf(x))
    nowhere = np.maximum(0.0, -np.expm1(epsilons))  # ε outside the range of the loss
    return low, np.clip(np.where(np.isnan(x), nowhere, deltas), 0.0, 1.0)


def _mixture(sigma: float, q: float, n: int, way: str) -> MixtureGaussianPrivacyLoss:
    """Make the library's privacy loss of a release of a unit of several records."""
    one = event(sigma, q, n)
    return MixtureGaussianPrivacyLoss(
        one.standard_deviation,
        one.sensitivities,
        one.sampling_probs,
        adjacency_type=AdjacencyType[way],
    )


def _place(losses: NDArray[np.float64], sigma: float, q: float, way: str) -> NDArray[np.float64]:
    """Compute the point where the library's distributions have this loss; NaN where there is none.

    The record is at -1 (ADD: at +1).
    """
    variance = sigma * sigma
    if way == "REPLACE":
        size = np.abs(losses)
        log_sinh = size / 2.0 + np.log(-np.expm1(-size) / 2.0)
        u = log_sinh + 0.5 / variance + math.log1p(-q) - math.log(q)
        arsinh = np.logaddexp(0.5 * np.logaddexp(0.0, 2.0 * u), u)  # of e^u
        return np.asarray(-variance * (np.sign(losses) * arsinh + losses / 2.0))
    sign = 1.0 if way == "ADD" else -1.0
    reached = -sign * losses
    if q == 1.0:
        return np.asarray(sign * (0.5 + variance * reached))
    large = np.maximum(reached, _LARGE)  # where e^reached could overflow
    far = large + np.log1p((q - 1.0) * np.exp(-large)) - math.log(q)
    near = np.log1p(np.expm1(np.minimum(reached, _LARGE)) / q)
    return np.asarray(sign * (0.5 + variance * np.where(reached < _LARGE, near, far)))


def _place_in(
    mixture: MixtureGaussianPrivacyLoss, losses: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute `_place` for a mixture Σ w_k N(s_k, σ²) by Newton's method; NaN where there is none.

    With y = -x/σ² (ADD: x/σ²) the loss is log(w_0 + e^g(y)) (ADD: minus that). Here g(y) is
    log Σ_{k>0} w_k e^(s_k·y - s_k²/2σ²), which is convex. The steps start where the largest of its
    terms alone reaches the value: right of the root, and near it. They never pass the root.
    """
    sign = 1.0 if mixture.adjacency_type == AdjacencyType.ADD else -1.0
    moves = mixture.sensitivities > 0.0
    slopes, weights = mixture.sensitivities[moves], mixture.sampling_probs[moves]
    reached = -sign * losses
    log_none = np.log(mixture.sampling_probs[~moves].sum())  # -inf if w_0 is below all floats
    values = reached + np.log1p(-np.exp(log_none - reached))  # log(e^reached - w_0)
    offsets = np.log(weights) - slopes**2 / (2.0 * mixture._variance)
    y = np.min((values[:, None] - offsets) / slopes, axis=1)
    for _ in range(_NEWTON):
        terms = np.multiply.outer(y, slopes) + offsets
        top = terms.max(axis=1)
        masses = np.exp(terms - top[:, None])
        total = masses.sum(axis=1)
        y, before = y - (top + np.log(total) - values) * total / (masses @ slopes), y
        if not (np.abs(y - before) > _SETTLED * np.abs(y)).any():
            break
    return np.asarray(sign * mixture._variance * y)
