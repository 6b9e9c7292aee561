"""Exposure by skew-normal extrapolation (Carlini et al. 2019, arXiv 1802.08232, Section 4.4).

For spaces without a prefix tree, and for display only: a fit shows nothing certain about a tail
that no reference reached, so no ε ever comes from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import erfcx, log_ndtr, logsumexp

_STEEPEST = 50.0  # the likelihood of a small sample can rise forever with the shape
_FEWEST = 100
_NODES = 200


@dataclass(frozen=True)
class SkewNormal:
    """A fit, in the unit of its scores, and how well it describes held-out scores.

    n: scores fitted, as many held out. p_value: of the largest distance between the fitted and the
    held-out distribution (Kolmogorov-Smirnov), as for two samples of n, since the fit is estimated
    too; as for a known law, 15 % of true skew normals would be called bad at 5 %.
    """

    location: float
    scale: float
    shape: float
    n: int
    p_value: float

    @property
    def acceptable(self) -> bool:
        """p_value > 0.05 (true skew normals: 98 %); this still shows little of the far tail."""
        return self.p_value > 0.05


def fit(references: ArrayLike, stream: np.random.Generator) -> SkewNormal:
    """Fit the most likely skew normal to a random half of the references, test it on the rest.

    references: (n,), -log p in nats of candidates drawn from the space. Shapes beyond ±50 are not
    tried. Raises ValueError for fewer than 100 references, infinite or NaN ones, or no spread.
    """
    scores = np.asarray(references, dtype=np.float64)
    if scores.ndim != 1 or len(scores) < _FEWEST or not np.isfinite(scores).all():
        raise ValueError(f"a fit needs at least {_FEWEST} finite references in one row")
    half = len(scores) // 2
    shuffled = stream.permutation(scores)
    seen, unseen = shuffled[:half], shuffled[half : 2 * half]
    centre, spread = float(seen.mean()), float(seen.std())
    if not spread > 0.0:
        raise ValueError("all references have the same score")
    z = (seen - centre) / spread

    def loss(x: NDArray[np.float64]) -> float:
        y = (z - x[0]) * math.exp(-x[1])
        return float(np.mean(y * y / 2.0 - log_ndtr(x[2] * y)) + x[1])

    bounds = [(-10.0, 10.0), (-5.0, 5.0), (-_STEEPEST, _STEEPEST)]
    starts = ((-0.7, 0.3, 2.0), (0.7, 0.3, -2.0))  # leaning right, leaning left
    tried = [minimize(loss, start, bounds=bounds) for start in starts]
    best = min(tried, key=lambda result: float(result.fun))
    shift, log_scale, shape = (float(x) for x in best.x)
    location, scale = centre + spread * shift, spread * math.exp(log_scale)
    test = scipy.stats.kstest
    distance = test(unseen, lambda x: np.exp(log_cdf((x - location) / scale, shape))).statistic
    p_value = float(scipy.stats.kstwobign.sf(distance * math.sqrt(half / 2.0)))
    return SkewNormal(location, scale, shape, half, p_value)


def exposure_bits(law: SkewNormal, scores: ArrayLike, space: float) -> NDArray[np.float64]:
    """Compute -log2 P[a candidate scores as low], between 0 and log2(space).

    scores: -log p in nats (lower = more likely), any shape. Raises ValueError for NaN or a space
    below 1.
    """
    values = np.asarray(scores, dtype=np.float64)
    if np.isnan(values).any() or not space >= 1.0:
        raise ValueError("scores must not be NaN and the space at least 1")
    bits = -log_cdf((values - law.location) / law.scale, law.shape) / math.log(2.0)
    return np.asarray(np.clip(bits, 0.0, math.log2(space)))


def log_cdf(z: ArrayLike, shape: float) -> NDArray[np.float64]:
    """Compute log of the integral of 2 φ(t) Φ(shape t) up to z, elementwise; -inf only at -inf.

    The tail on the far side of the mode is integrated in log space (Gauss-Legendre), so that
    nothing underflows: scipy's own is -inf some ten deviations out.
    """
    values = np.asarray(z, dtype=np.float64)
    points = np.clip(values, -1e100, 1e100)  # squares must not overflow
    lower = _fall(points, shape) >= 0.0
    with np.errstate(divide="ignore"):
        left = _log_tail(np.where(lower, points, 0.0), shape)
        right = np.log1p(-np.exp(_log_tail(np.where(lower, 0.0, -points), -shape)))
    return np.where(values == -np.inf, -np.inf, np.where(lower, left, right))


def _fall(z: NDArray[np.float64], shape: float) -> NDArray[np.float64]:
    """Compute the slope of the log density, d/dz."""
    hazard = math.sqrt(2.0 / math.pi) / erfcx(-shape * z / math.sqrt(2.0))  # φ/Φ at shape z
    return np.asarray(shape * hazard - z)


def _log_tail(z: NDArray[np.float64], shape: float) -> NDArray[np.float64]:
    """Compute the log of the integral up to z, for z at or below the mode.

    Going down from z the log density falls at least as fast as slope u + u²/2 (it is concave, and
    its Gaussian part alone bends by 1), so beyond `reach` there is less than e^-45 of it.
    """
    x, weights = _gauss_legendre()
    slope = np.maximum(_fall(z, shape), 0.0)[..., None]
    reach = 90.0 / (slope + np.sqrt(slope * slope + 90.0))
    t = z[..., None] - reach * x * x  # squared: nodes crowd at z, where the density is
    log_density = log_ndtr(shape * t) - t * t / 2.0 + math.log(2.0 / math.sqrt(2.0 * math.pi))
    return np.asarray(logsumexp(log_density + np.log(weights * x * reach), axis=-1))


@cache
def _gauss_legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute nodes on (0, 1) and twice their weights: the 2 of d(x²) = 2x dx is in them."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1.0) / 2.0, weights
