"""An upper bound on ε by privacy loss distributions: dp-accounting's, pessimistic estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_mechanism import (
    AdjacencyType,
    GaussianPrivacyLoss,
    MixtureGaussianPrivacyLoss,
)
from numpy.typing import NDArray
from scipy import fft

from audit.accounting.events import event
from audit.accounting.mechanism import Gaussians, Mechanism
from audit.accounting.privacy_loss import pair_of
from audit.core.terms import Relation

_ROUNDING = 2e-15  # of δ, per convolved release: five times the largest of 558 measured
_COARSEST = 60  # intervals in the widest loss of one release
_BUILT = 3e5  # intervals of one release
_COMPOSED = 4e6  # intervals after composition
_MIXTURE_COST = 40.0  # a mixture has this many times fewer intervals; another number moves its ε
_TAIL, _TILTS = 1e-15, 12  # mass of a composition that may be cut off, and is counted at infinity
_DRIFT = 1e-7  # nats: rounding error of the library where it adds up millions of intervals
_LARGE = 500.0  # nats: a loss whose exponential is not computed, as it could overflow
_NEWTON, _SETTLED = 60, 1e-14  # most steps; the relative step at which they end
NARROWEST, _WIDEST = 1e-7, 500.0  # nats: second differences of δ drown; e^interval overflows


def pld_epsilon(mechanism: Mechanism, delta: float, tolerance: float) -> float:
    """Computes ε (nats) at δ, an upper bound on every grid; inf where the PLD cannot resolve δ.

    Grids are quartered until the expected gain is below `tolerance` (relative to ε, or in nats for
    ε < 1) or the grid is as fine as time and memory allow. A smaller tolerance visits the same
    grids and finer ones, and so never returns more. δ is first lowered by the rounding error of the
    FFT convolutions: for tiny δ and many releases the library alone returns too small an ε.
    """
    allowed = delta - _ROUNDING * (1 + sum(t.count if t.sampled else 1 for t in mechanism.active))
    best = before = gained = math.inf
    if allowed <= 0.0:
        return best
    for interval in _intervals(mechanism):
        now = _at_interval(mechanism, allowed, interval)
        best = min(best, now)
        gain = before - now
        fall = min(16.0, max(2.0, gained / gain)) if gain > 0.0 else 16.0  # at best, the square
        if gain / (fall - 1.0) < tolerance * max(1.0, now):
            break
        before, gained = now, gain
    return best


def _at_interval(mechanism: Mechanism, delta: float, interval: float) -> float:
    try:
        with np.errstate(all="ignore"):  # an overflow ends as NaN, which passes no test below
            whole = composed(mechanism, interval)
            if whole.get_delta_for_epsilon(0.0) <= delta:
                return 0.0
            epsilon = float(whole.get_epsilon_for_delta(delta))
            for drift in (0.0, _DRIFT):
                if whole.get_delta_for_epsilon(epsilon + drift) <= delta * (1.0 + 1e-9):
                    return epsilon + drift
    except (ArithmeticError, LookupError, ValueError):  # beyond the library's arithmetic
        pass
    return math.inf


def deltas(
    mechanism: Mechanism, epsilons: NDArray[np.float64], interval: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Computes δ of removing, and of adding, the unit at these ε (nats); rounding not included.

    Under replace both are the same. NaN or an error of the library beyond its arithmetic.
    """
    with np.errstate(all="ignore"):
        whole = composed(mechanism, interval)
        removed, added = whole._pmf_remove, whole._pmf_add  # publicly, only the larger of both
        falls = removed.get_delta_for_epsilon(epsilons)
        return falls, falls if added is removed else added.get_delta_for_epsilon(epsilons)


def composed(mechanism: Mechanism, interval: float) -> Any:
    """Computes the privacy loss distribution of all releases, as the library's."""
    first, *rest = (_distribution(term, mechanism, interval) for term in mechanism.active)
    return reduce(lambda one, other: one.compose(other), rest, first)


def _distribution(term: Gaussians, mechanism: Mechanism, interval: float) -> Any:
    """Computes the privacy loss distribution, as the library's, of all releases of a term."""
    ways = ("REPLACE",) if mechanism.relation == Relation.REPLACE else ("REMOVE", "ADD")
    if not term.sampled:  # one Gaussian, the same both ways
        ways, term = ("REMOVE",), Gaussians(1.0 / mechanism.mu_of(term), 1)
    return privacy_loss_distribution.PrivacyLossDistribution(
        *(_self_composed(_deltas(term, way, interval), term.count, interval) for way in ways)
    )


def _deltas(term: Gaussians, way: str, interval: float) -> tuple[int, NDArray[np.float64]]:
    """Computes (k, δ of one release at ε = (k, k + 1, …)·interval), by the library's own formula.

    The library does this for one ε at a time, which is tens of times slower.
    """
    mixture = _mixture(term, way) if term.sampled and term.records > 1 else None
    sigma, q = term.noise_multiplier, term.sampling_probability
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


def _mixture(term: Gaussians, way: str) -> MixtureGaussianPrivacyLoss:
    """Makes the library's privacy loss of a release of a unit of several records."""
    mixture = event(Mechanism((term,), Relation.ADD_OR_REMOVE)).events[0].event
    return MixtureGaussianPrivacyLoss(
        mixture.standard_deviation,
        mixture.sensitivities,
        mixture.sampling_probs,
        adjacency_type=AdjacencyType[way],
    )


def _self_composed(
    low_deltas: tuple[int, NDArray[np.float64]], count: int, interval: float
) -> DensePLDPmf:
    """Connects dots and convolves as the library does, in the least window that Chernoff allows.

    Connecting dots: Doroshenko et al. 2022 (arXiv 2207.04380). The library's tilts are too small
    for rare large losses, which makes its windows many times too wide.
    """
    low, deltas = low_deltas
    falls = -np.diff(np.minimum.accumulate(deltas))
    up, down = np.append(0.0, falls), np.append(falls, 0.0)
    masses = (up * math.exp(interval) - down) / math.expm1(interval)
    masses[0] += 1.0 - deltas[0]
    masses = np.maximum(0.0, masses)

    log_masses, index = np.log(masses), np.arange(masses.size)
    log_tail = math.log(2.0 / _TAIL)

    def reach(tilt: float) -> float:
        tilted = log_masses + tilt * index
        top = tilted.max()
        return float(count * (top + math.log(np.exp(tilted - top).sum())) + log_tail) / tilt

    tilts = [2.0**k / masses.size for k in range(_TILTS)]
    start = max(0, math.floor(max(reach(-tilt) for tilt in tilts)))
    stop = min(count * (masses.size - 1), math.ceil(min(reach(tilt) for tilt in tilts))) + 1
    size = fft.next_fast_len(max(stop - start, masses.size), real=True)
    around = fft.irfft(fft.rfft(masses, size) ** count, size)
    composed = np.roll(around, -start)[: stop - start]
    endless = _TAIL - math.expm1(count * math.log1p(-deltas[-1]))
    return DensePLDPmf(interval, low * count + start, composed, endless, True)


def _place(losses: NDArray[np.float64], sigma: float, q: float, way: str) -> NDArray[np.float64]:
    """Computes the point where the library's distributions have this loss; NaN where there is none.

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
    """Computes `_place` for a mixture Σ w_k N(s_k, σ²) by Newton's method; NaN where there is none.

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


def _intervals(mechanism: Mechanism) -> Iterator[float]:
    """Yields grid intervals in nats, down to the finest affordable."""
    sizes = sizes_of(mechanism)
    finest = max(sizes.built / _BUILT, sizes.composed / _COMPOSED, NARROWEST)
    quarterings = max(0, math.floor(math.log(sizes.widest / _COARSEST / finest, 4.0)))
    intervals = (finest * 4.0**k for k in range(quarterings, -1, -1))
    return (interval for interval in intervals if interval <= _WIDEST)


class Sizes(NamedTuple):
    """Sizes of a mechanism's privacy losses, in nats.

    built: widths of single releases, where a mixture counts `_MIXTURE_COST` times.
    composed: widths after composition. widest, narrowest: of single releases, the largest width and
    the least standard deviation.
    """

    built: float
    composed: float
    widest: float
    narrowest: float


def sizes_of(mechanism: Mechanism) -> Sizes:
    """Estimates how wide the privacy loss distributions of a mechanism will be."""
    built, composed, widest, narrowest = 0.0, 0.0, 0.0, math.inf
    for term in mechanism.active:
        width, variance, count = _loss(term, mechanism)
        built += width * (_MIXTURE_COST if term.sampled and term.records > 1 else 1.0)
        composed += _composed_width(width, variance, count)
        widest, narrowest = max(widest, width), min(narrowest, math.sqrt(variance))
    return Sizes(built, composed, widest, narrowest)


def _composed_width(width: float, variance: float, count: int) -> float:
    """Computes dp-accounting's width in nats after `count` convolutions (Chernoff, 20 tilts)."""
    tilt = min(20.0, max(1.0, math.sqrt(70.0 / (count * variance)) * width)) if variance else 20.0
    return min(count * width, tilt * count * variance / width + 70.0 * width / tilt)


def _loss(term: Gaussians, mechanism: Mechanism) -> tuple[float, float, int]:
    """Computes (width, variance, number of convolutions) of a term's privacy loss, in nats."""
    pair = pair_of(term, mechanism.relation) if term.sampled else None
    if pair is not None:
        return pair.loss_width(), pair.loss_variance(), term.count
    mu = mechanism.mu_of(term) / (math.sqrt(term.count) if term.sampled else 1.0)
    return mu * mu + 20.0 * mu, mu * mu, term.count if term.sampled else 1
