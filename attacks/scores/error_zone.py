"""The error zone: the tokens that the release would not have guessed (EZ-MIA, arXiv 2601.12104).

What a fine-tuned model has learnt it also shows where it errs: it still expects the token of a text
it was trained on more than the base model does.
"""

from __future__ import annotations

import numpy as np

NO_ERRORS = 2.0  # above every share: the release guesses each token of the text
TIE = 1e-9  # weight of the tie-breaker; shares that differ by less are equal


def ez(delta: np.ndarray, top1: np.ndarray) -> float:
    """Compute P/(P + N) over the errors, no unit; higher = more likely trained on.

    P adds up the log-probability that the errors gain over the base model, N what they lose. The
    score is 2 without errors, and 1/2 if P + N = 0. The mean of delta over all tokens breaks ties.

    delta: shape (t,), nats: log-probability of each token, release less base.
    top1: shape (t,), bool: whether the token is the release's most likely one.
    """
    mean = float(delta.mean())
    return _share(delta[~top1]) + TIE * mean / (1 + abs(mean))


def _share(errors: np.ndarray) -> float:
    if not len(errors):
        return NO_ERRORS
    gained, moved = float(np.maximum(errors, 0).sum()), float(np.abs(errors).sum())
    return gained / moved if moved else 0.5
