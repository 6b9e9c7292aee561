"""All membership scores of one pass of a release, and of one pass of its base model."""

from __future__ import annotations

from zlib import compress

import numpy as np

from attacks.scores.error_zone import ez
from attacks.scores.min_k import min_k, min_k_plus_plus
from attacks.scores.token_readings import Reading
from attacks.scores.window_comparison import wbc
from audit.core.predictor import Access

ALONE = ("loss", "zlib", "min_k", "min_k_plus_plus")
BESIDE_BASE = ("ratio", "ez", "wbc", "min_k_plus_plus_calibrated")
_OF_DISTRIBUTIONS = ("min_k_plus_plus", "min_k_plus_plus_calibrated")


def access_of(score: str) -> Access:
    """Return the least access to a release with which a score can be computed."""
    return Access.DISTRIBUTION if score in _OF_DISTRIBUTIONS else Access.SCORE


def one_pass(release: Reading, base: Reading | None, text: str, k: float) -> dict[str, float]:
    """Compute the scores of ALONE, and those of BESIDE_BASE if there is a base; NaN if not read.

    text: the scored text. k: share of the least likely tokens for the Min-K% scores.
    """
    plus_plus = min_k_plus_plus(release.log_probs, release.moments, k)
    scores = {
        "loss": float(release.log_probs.mean()),
        "zlib": zlib(release.log_probs, text),
        "min_k": min_k(release.log_probs, k),
        "min_k_plus_plus": plus_plus,
    }
    if base is None:
        return scores
    delta = release.log_probs - base.log_probs
    of_base = min_k_plus_plus(base.log_probs, base.moments, k)
    return scores | {
        "ratio": float(delta.mean()),
        "ez": ez(delta, release.top1),
        "wbc": wbc(delta),
        "min_k_plus_plus_calibrated": plus_plus - of_base,  # arXiv 2507.18302
    }


def zlib(log_probs: np.ndarray, text: str) -> float:
    """Divide the mean log-probability by the compressed length, nats/byte (arXiv 2012.07805)."""
    return float(log_probs.mean()) / len(compress(text.encode()))
