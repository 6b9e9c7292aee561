"""Test whether a privacy ledger undercharges, by a bet that grows if its charges are too low.

Derived here; e-values: Waudby-Smith and Ramdas (arXiv 2010.09686); Rényi filters: Feldman and
Zrnic (arXiv 2008.11193).

If every answered query charges at least the divergence D_α it causes, then over transcripts drawn
under D', E[X] <= 1 for X = (h_D/h_D')^α e^{-(α-1) sum charge}. A gambler who stakes shares of the
wealth on X > 1 then gains nothing on average. By Ville's inequality the wealth ever reaches
1/γ with probability at most γ, however heavy the tail of X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

# Shares of the wealth, one gambler each, all starting with the same wealth. Together they are one
# gambler whose next share is their wealth-weighted mean, which depends on the past only.
_SHARES = np.array([1 / 64, 1 / 16, 1 / 4, 3 / 4])


@dataclass(frozen=True)
class LedgerTest:
    """Result of betting against a ledger.

    e_value: wealth after all n transcripts from a stake of 1 (its mean is <= 1 if the ledger is
    right). largest: the largest wealth on the way. rejected: largest >= 1/gamma.
    """

    e_value: float
    largest: float
    n: int
    gamma: float
    rejected: bool

    @property
    def p_value(self) -> float:
        """1/largest: at most x with probability at most x if the ledger is right (for Holm)."""
        return 1.0 / self.largest


def ledger_test(
    log_ratios: ArrayLike, charges: ArrayLike, alpha: float, gamma: float = 0.05
) -> LedgerTest:
    """Test that charges bound the Rényi divergences of order alpha, under this run's own STOP.

    log_ratios: (transcripts,), L = sum over answered queries of log h_D/h_D' in nats, transcripts
    drawn independently under D' (the neighbour); -inf = impossible under D. charges: (transcripts,)
    the sum of what each transcript's answered queries charged for D_α(h_D‖h_D'), in nats. gamma:
    the probability of rejecting a ledger that is right. Rejected = some charge is too small. This
    tests one direction of one part; a full test makes both, for every part, and adjusts gamma.
    Raises
    ValueError unless 1 < alpha < inf, 0 < gamma < 1, equal lengths, no NaN, L < inf and charges
    not negative.
    """
    ratio = np.asarray(log_ratios, dtype=np.float64)
    charge = np.asarray(charges, dtype=np.float64)
    if ratio.ndim != 1 or ratio.shape != charge.shape:
        raise ValueError(
            f"one log ratio and one charge per transcript; got {ratio.shape} and {charge.shape}"
        )
    if not (ratio < math.inf).all():
        raise ValueError("log ratios must not be NaN or +inf: transcripts are drawn under D'")
    if not (charge >= 0.0).all():
        raise ValueError("charges must not be negative or NaN")
    if not 1.0 < alpha < math.inf:
        raise ValueError(f"the order alpha must lie between 1 and inf; got {alpha}")
    if not 0.0 < gamma < 1.0:
        raise ValueError(f"gamma must lie strictly between 0 and 1; got {gamma}")
    log_x = alpha * ratio - (alpha - 1.0) * charge
    if len(log_x) == 0:
        return LedgerTest(1.0, 1.0, 0, gamma, False)
    shares = _SHARES[:, None]
    steps = np.logaddexp(np.log1p(-shares), np.log(shares) + log_x)  # log(1 + share (X - 1))
    each = np.cumsum(steps, axis=1)
    wealth = np.logaddexp.reduce(each, axis=0) - math.log(len(_SHARES))
    top = max(0.0, float(wealth.max()))
    return LedgerTest(
        e_value=_exp(float(wealth[-1])),
        largest=_exp(top),
        n=len(log_x),
        gamma=gamma,
        rejected=top >= -math.log(gamma),
    )


def _exp(log_value: float) -> float:
    return math.exp(log_value) if log_value < 709.0 else math.inf
