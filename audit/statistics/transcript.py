"""Bound (ε, δ) from recorded answers whose exact likelihoods are known.

δ(ε) of a pair of runs is E_D[(1 - e^{ε-L})_+] with L = log h_D/h_D' (Balle and Wang 2018, arXiv
1805.06530, Theorem 5), a mean of values in [0, 1], which is bounded by betting.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.statistics import betting
from audit.statistics.checks import check_confidence, check_delta

STEP = 0.01  # nats between the values of ε that are tried


def delta_lower(log_ratios: ArrayLike, epsilon: float, confidence: float = 0.95) -> float:
    """Bound δ at this epsilon from below, by the mean of (1-e^{ε-L})_+.

    log_ratios: (N,), L = log-probability of the whole transcript under D minus that under D', in
    nats, transcripts drawn independently under D; +inf = impossible under D'. epsilon in nats, in
    the relation of D to D'. At least 0.0. Raises ValueError for no transcripts, NaN, -inf,
    epsilon < 0 or confidence outside (0, 1).
    """
    ratios = _checked(log_ratios, confidence)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon}")
    return betting.mean_lower(_excess(ratios, epsilon), confidence)


def epsilon_lower(log_ratios: ArrayLike, delta: float, confidence: float = 0.95) -> float:
    """Find the largest ε (nats) that these transcripts refute at this delta, to `STEP`.

    Multiples of `STEP` are tried from 0 up, and the first that is not refuted ends the search. So
    the bound is too high only if the first multiple from the true ε on is refuted, which is one
    test at this confidence. (Stakes depend on ε, so a refutation of ε alone refutes no
    smaller one.) 0.0 if nothing is shown, inf if even transcripts that are impossible under D' are
    shown to be more than delta. log_ratios as in `delta_lower`. Raises ValueError as it does, and
    unless 0 <= delta <= 1.
    """
    ratios = _checked(log_ratios, confidence)
    check_delta(delta)
    top = float(np.max(ratios[np.isfinite(ratios)], initial=0.0))
    steps = math.ceil(top / STEP)
    for i in range(steps + 1):
        if not betting.exceeds(_excess(ratios, i * STEP), delta, confidence):
            return max(0, i - 1) * STEP
    return math.inf  # from the last step on, every excess stays as it is


def _excess(ratios: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    if math.isinf(epsilon):
        return np.isposinf(ratios).astype(np.float64)
    return -np.expm1(np.minimum(epsilon - ratios, 0.0))


def _checked(log_ratios: ArrayLike, confidence: float) -> NDArray[np.float64]:
    ratios = np.asarray(log_ratios, dtype=np.float64)
    if ratios.ndim != 1 or len(ratios) == 0:
        raise ValueError(f"at least one transcript is needed, one row; got shape {ratios.shape}")
    if not (ratios > -math.inf).all():
        raise ValueError("log ratios must not be NaN or -inf: transcripts are drawn under D")
    check_confidence(confidence)
    return ratios
