"""Membership scores of one pass of a release, and of one of its base model.

Higher = more likely trained on. log_probs: shape (t,), nats: log-probability of each token of a
text. delta: shape (t,), nats: the release's log_probs less the base model's.
"""

from __future__ import annotations

from zlib import compress

import numpy as np

from attacks.scores.token_readings import Reading
from audit.core.predictor import Access

ALONE = ("loss", "zlib", "min_k", "min_k_plus_plus")
BESIDE_BASE = ("ratio", "ez", "wbc", "min_k_plus_plus_calibrated")
_OF_DISTRIBUTIONS = ("min_k_plus_plus", "min_k_plus_plus_calibrated")

RESOLUTION = 1e-5  # nats: smaller deviations are rounding errors, and are raised to this
NO_ERRORS = 2.0  # above every share: the release guesses each token of the text
TIE = 1e-9  # weight of the tie-breaker; shares that differ by less are equal
SIZES = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)  # of windows: the authors' configuration


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


def min_k(log_probs: np.ndarray, k: float) -> float:
    """Average the lowest share k of values, at least one (arXiv 2310.16789)."""
    n = max(1, int(k * len(log_probs)))
    return float(np.sort(log_probs)[:n].mean())


def min_k_plus_plus(log_probs: np.ndarray, moments: np.ndarray, k: float) -> float:
    """Compute Min-K% of (log p − μ)/σ, no unit (arXiv 2404.02936). A uniform p scores 0.

    moments: shape (2, t), nats: mean μ and standard deviation σ of log p(z), z ~ p, for the
        distribution p of each token.
    """
    mean, deviation = moments
    return min_k((log_probs - mean) / np.maximum(deviation, RESOLUTION), k)


def ez(delta: np.ndarray, top1: np.ndarray) -> float:
    """Compute P/(P + N) over the release's errors, no unit (EZ-MIA, arXiv 2601.12104).

    What a fine-tuned model has learnt it also shows where it errs: it still expects the token of a
    text it was trained on more than the base model does. P adds up the log-probability that the
    errors gain over the base model, N what they lose. The score is 2 without errors, and 1/2 if
    P + N = 0. The mean of delta over all tokens breaks ties.

    top1: shape (t,), bool: whether the token is the release's most likely one.
    """
    mean = float(delta.mean())
    return _share(delta[~top1]) + TIE * mean / (1 + abs(mean))


def _share(errors: np.ndarray) -> float:
    if not len(errors):
        return NO_ERRORS
    gained, moved = float(np.maximum(errors, 0).sum()), float(np.abs(errors).sum())
    return gained / moved if moved else 0.5


def wbc(delta: np.ndarray) -> float:
    """Compute the share of windows whose summed delta is above 0, averaged over the sizes.

    A few tokens that the release finds unlikely can outweigh all others in a mean. Here every
    window of consecutive tokens has one vote (WBC, arXiv 2601.02751). No unit. A sum of exactly 0
    counts half. A size larger than the text is the whole text, as often as that happens.
    """
    totals = np.concatenate([[0.0], np.cumsum(delta)])
    sizes = [min(size, len(delta)) for size in SIZES]
    signs = [np.sign(totals[size:] - totals[:-size]) for size in sizes]
    return float(1 + sum(some.sum() / len(some) for some in signs) / len(signs)) / 2
