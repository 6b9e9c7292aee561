"""Bounds (ε, δ) from recorded answers whose exact likelihoods are known.

δ(ε) of a pair of runs is E_D[(1 - e^{ε-L})_+] with L = log h_D/h_D' (Balle and Wang 2018, arXiv
1805.06530, Theorem 5); its sample mean is bounded by Hoeffding's inequality.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.statistics.checks import check_confidence, check_delta
from audit.statistics.search import largest

_WIDTH = 1e-12  # nats


def delta_lower(log_ratios: ArrayLike, epsilon: float, confidence: float = 0.95) -> float:
    """Bounds δ at this epsilon from below: mean (1-e^{ε-L})_+ - sqrt(ln(1/(1-confidence))/2N).

    log_ratios: (N,), L = log-probability of the whole transcript under D minus that under D', in
    nats, transcripts drawn independently under D; +inf = impossible under D'. epsilon in nats, in
    the relation of D to D'. At least 0.0. Raises ValueError for no transcripts, NaN, -inf,
    epsilon < 0 or confidence outside (0, 1).
    """
    ratios = _checked(log_ratios, confidence)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon}")
    return max(0.0, _excess(ratios, epsilon) - _slack(len(ratios), confidence))


def epsilon_lower(log_ratios: ArrayLike, delta: float, confidence: float = 0.95) -> float:
    """Finds the largest ε (nats) that these transcripts refute at this delta.

    sup{ε >= 0 : delta_lower(ε) > delta}, approached from below; 0.0 if nothing is shown, inf if
    more than delta of the transcripts are impossible under D'. Valid at once for all ε, because
    delta_lower falls with ε. log_ratios as in `delta_lower`. Raises ValueError as it does, and
    unless 0 <= delta <= 1.
    """
    ratios = _checked(log_ratios, confidence)
    check_delta(delta)
    needed = delta + _slack(len(ratios), confidence)
    if not _excess(ratios, 0.0) > needed:
        return 0.0
    if float(np.mean(np.isposinf(ratios))) > needed:
        return math.inf
    top = float(np.max(ratios[np.isfinite(ratios)], initial=0.0))
    return largest(lambda epsilon: _excess(ratios, epsilon) > needed, 0.0, top, _WIDTH)


def _excess(ratios: NDArray[np.float64], epsilon: float) -> float:
    if math.isinf(epsilon):
        return float(np.mean(np.isposinf(ratios)))
    return float(np.mean(-np.expm1(np.minimum(epsilon - ratios, 0.0))))


def _slack(n: int, confidence: float) -> float:
    return math.sqrt(-math.log1p(-confidence) / (2.0 * n))


def _checked(log_ratios: ArrayLike, confidence: float) -> NDArray[np.float64]:
    ratios = np.asarray(log_ratios, dtype=np.float64)
    if ratios.ndim != 1 or len(ratios) == 0:
        raise ValueError(f"at least one transcript is needed, one row; got shape {ratios.shape}")
    if not (ratios > -math.inf).all():
        raise ValueError("log ratios must not be NaN or -inf: transcripts are drawn under D")
    check_confidence(confidence)
    return ratios
