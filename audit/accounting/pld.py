"""An upper bound on ε by privacy loss distributions: dp-accounting's, pessimistic estimate."""

from __future__ import annotations

import math

from audit.accounting.events import event
from audit.accounting.losses import pair_of
from audit.accounting.mechanism import Gaussians, Mechanism

_ROUNDING = 2e-15  # of δ, per convolved release: five times the largest of 558 measured
_COARSEST = 250  # intervals in the widest loss of one release
_BUILT = 3e5  # intervals that the library computes one by one, about 8 µs each
_COMPOSED = 4e6  # intervals after composition
_MIXTURE_COST = 40.0  # as many times longer takes an interval of a mixture
_NARROWEST, _WIDEST = 1e-7, 500.0  # nats: second differences of δ drown; e^interval overflows


def pld_epsilon(mechanism: Mechanism, delta: float, tolerance: float) -> float:
    """ε (nats) at δ, an upper bound at every grid; inf where the PLD cannot resolve this δ.

    Grids are halved until what refining still brings is below `tolerance` (of ε, or nats where
    ε < 1) or the grid is as fine as time and memory allow. δ is lowered by what the convolutions
    by FFT may lose: for tiny δ and many releases the library alone returns an ε below the truth.
    """
    allowed = delta - _ROUNDING * (1 + sum(t.count if t.sampled else 1 for t in mechanism.audible))
    best = before = math.inf
    if allowed <= 0.0:
        return best
    interval, finest = _intervals(mechanism)
    halvings = 2
    while finest <= interval <= _WIDEST:
        now = _at_interval(mechanism, allowed, interval)
        best = min(best, now)
        left = (before - now) / (4.0**halvings - 1.0)  # the error falls with the interval squared
        wanted = tolerance * max(1.0, now)
        if left < wanted:
            break
        before = now
        halvings = max(1, math.ceil(math.log(left / wanted, 4.0))) if math.isfinite(left) else 2
        halvings = min(halvings, max(1, math.floor(math.log2(interval / finest))))
        interval /= 2.0**halvings
    return best


def _at_interval(mechanism: Mechanism, delta: float, interval: float) -> float:
    import dp_accounting
    import numpy as np
    from dp_accounting import pld

    relation = {
        "add_or_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace": dp_accounting.NeighboringRelation.REPLACE_ONE,
    }[mechanism.relation]
    accountant = pld.PLDAccountant(relation, interval)
    try:
        with np.errstate(all="ignore"):  # what overflows ends as NaN, which fulfils nothing below
            accountant.compose(event(mechanism))
            if accountant.get_delta(0.0) <= delta:
                return 0.0
            epsilon = float(accountant.get_epsilon(delta))
            held = accountant.get_delta(epsilon) <= delta * (1.0 + 1e-9)  # its inverse, checked
    except (ArithmeticError, LookupError, ValueError):  # beyond the library's arithmetic
        return math.inf
    return epsilon if held else math.inf


def _intervals(mechanism: Mechanism) -> tuple[float, float]:
    """(first, finest affordable) grid interval, nats."""
    built = composed = widest = 0.0
    for term in mechanism.audible:
        width, variance, count = _loss(term, mechanism)
        cost = _MIXTURE_COST if term.sampled and term.records > 1 else 1.0
        built += cost * width
        composed += _composed_width(width, variance, count)
        widest = max(widest, width)
    finest = max(built / _BUILT, composed / _COMPOSED, _NARROWEST)
    return max(finest, widest / _COARSEST), finest


def _composed_width(width: float, variance: float, count: int) -> float:
    """How wide dp-accounting keeps a loss after `count` convolutions (Chernoff, 20 tilts), nats."""
    tilt = min(20.0, max(1.0, math.sqrt(70.0 / (count * variance)) * width)) if variance else 20.0
    return min(count * width, tilt * count * variance / width + 70.0 * width / tilt)


def _loss(term: Gaussians, mechanism: Mechanism) -> tuple[float, float, int]:
    """(width, variance, how many are convolved) of a term's privacy loss; nats."""
    pair = pair_of(term, mechanism.relation) if term.sampled else None
    if pair is not None:
        return pair.loss_width(), pair.loss_variance(), term.count
    mu = mechanism.mu_of(term) / (math.sqrt(term.count) if term.sampled else 1.0)
    return mu * mu + 20.0 * mu, mu * mu, term.count if term.sampled else 1
