"""An upper bound on ε by privacy loss distributions: dp-accounting's, pessimistic estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.pld.pld_pmf import DensePLDPmf
from numpy.typing import NDArray
from scipy import fft

from audit.accounting import event_losses, gaussian_losses
from audit.accounting.mechanism import Mechanism
from audit.accounting.privacy_loss import Losses
from audit.accounting.term import Term

_ROUNDING = 2e-15  # of δ, per convolved release: five times the largest of 558 measured
_COARSEST = 60  # intervals in the widest loss of one release
_BUILT = 3e5  # intervals of one release
_COMPOSED = 4e6  # intervals after composition
_LARGEST = 4 * int(_COMPOSED)  # beyond what was estimated: endless work, for no better bound
_MIXTURE_COST = 40.0  # a mixture has this many times fewer intervals; another number moves its ε
_TAIL, _TILTS = 1e-15, 12  # mass of a composition that may be cut off, and is counted at infinity
_DRIFT = 1e-7  # nats: rounding error of the library where it adds up millions of intervals
NARROWEST, _WIDEST = 1e-7, 500.0  # nats: second differences of δ drown; e^interval overflows


@lru_cache(maxsize=256)  # releases of one run, and its seeds, share their mechanism
def pld_epsilon(mechanism: Mechanism, delta: float, tolerance: float) -> float:
    """Compute ε (nats) at δ, an upper bound on every grid; inf where the PLD cannot resolve δ.

    Grids are quartered until the expected gain is below `tolerance` (relative to ε, or in nats for
    ε < 1) or the grid is as fine as time and memory allow. A smaller tolerance visits the same
    grids and finer ones, and so never returns more. δ is first lowered by the rounding error of the
    FFT convolutions: for tiny δ and many releases the library alone returns too small an ε.
    """
    convolved = sum(1 if term.is_gaussian else term.count for term in mechanism.active)
    allowed = delta - _ROUNDING * (1 + convolved)
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
    """Compute δ of removing, and of adding, the unit at these ε (nats); rounding not included.

    Under replace both are the same. NaN or an error of the library beyond its arithmetic.
    """
    with np.errstate(all="ignore"):
        whole = composed(mechanism, interval)
        removed, added = whole._pmf_remove, whole._pmf_add  # publicly, only the larger of both
        falls = removed.get_delta_for_epsilon(epsilons)
        return falls, falls if added is removed else added.get_delta_for_epsilon(epsilons)


def composed(mechanism: Mechanism, interval: float) -> Any:
    """Compute the privacy loss distribution of all releases, as the library's."""
    first, *rest = (_distribution(term, mechanism.relation, interval) for term in mechanism.active)
    return reduce(lambda one, other: one.compose(other), rest, first)


def _distribution(term: Term, relation: str, interval: float) -> Any:
    """Compute the privacy loss distribution, as the library's, of all releases of a term."""
    each, count = _single(term, relation, interval)
    return privacy_loss_distribution.PrivacyLossDistribution(
        *(_self_composed(one, count, interval) for one in each)
    )


def _single(term: Term, relation: str, interval: float) -> tuple[tuple[Losses, ...], int]:
    """Discretise one release, and count them; what is one Gaussian is one release."""
    if not term.is_gaussian:
        own = term.losses(relation, interval)
        return own or event_losses.losses(term.event(), relation, interval), term.count
    return (gaussian_losses.losses(1.0 / term.mu(relation), 1.0, 1, "REMOVE", interval),), 1


def _self_composed(one: Losses, count: int, interval: float) -> DensePLDPmf:
    """Convolve as the library does, in the least window that Chernoff allows.

    The library's tilts are too small for rare large losses, which makes its windows many times too
    wide.
    """
    low, masses, lost = one
    log_masses, index = np.log(masses), np.arange(masses.size)
    log_tail = math.log(2.0 / _TAIL)

    def reach(tilt: float) -> float:
        tilted = log_masses + tilt * index
        top = tilted.max()
        return float(count * (top + math.log(np.exp(tilted - top).sum())) + log_tail) / tilt

    tilts = [2.0**k / masses.size for k in range(_TILTS)]
    start = max(0, math.floor(max(reach(-tilt) for tilt in tilts)))
    stop = min(count * (masses.size - 1), math.ceil(min(reach(tilt) for tilt in tilts))) + 1
    if stop - start > _LARGEST:
        raise OverflowError(f"{stop - start} intervals after composition")
    size = fft.next_fast_len(max(stop - start, masses.size), real=True)
    around = fft.irfft(fft.rfft(masses, size) ** count, size)
    composed = np.roll(around, -start)[: stop - start]
    endless = _TAIL - math.expm1(count * math.log1p(-lost))
    return DensePLDPmf(interval, low * count + start, composed, endless, True)


def _intervals(mechanism: Mechanism) -> Iterator[float]:
    """Yield grid intervals in nats, down to the finest affordable."""
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
    """Estimate how wide the privacy loss distributions of a mechanism will be."""
    built, composed, widest, narrowest = 0.0, 0.0, 0.0, math.inf
    for term in mechanism.active:
        width, variance, count = _loss(term, mechanism.relation)
        mixture = not term.is_gaussian and term.records > 1
        built += width * (_MIXTURE_COST if mixture else 1.0)
        composed += _composed_width(width, variance, count)
        widest, narrowest = max(widest, width), min(narrowest, math.sqrt(variance))
    return Sizes(built, composed, widest, narrowest)


def _composed_width(width: float, variance: float, count: int) -> float:
    """Compute dp-accounting's width in nats after `count` convolutions (Chernoff, 20 tilts)."""
    tilt = min(20.0, max(1.0, math.sqrt(70.0 / (count * variance)) * width)) if variance else 20.0
    return min(count * width, tilt * count * variance / width + 70.0 * width / tilt)


def _loss(term: Term, relation: str) -> tuple[float, float, int]:
    """Compute (width, variance, number of convolutions) of a term's privacy loss, in nats."""
    if not term.is_gaussian:
        own = term.spread(relation)
        return *(own or event_losses.spread(term.event(), relation)), term.count
    mu = term.mu(relation)
    return mu * mu + 20.0 * mu, mu * mu, 1
