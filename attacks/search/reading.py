"""Reads log-probabilities of secrets under a release, within its budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.core.predictor import Access, Predictor, affordable, continuation
from audit.core.secret import Secret

_SCORED_AT_ONCE = 4096


def read(predictor: Predictor, secrets: Sequence[Secret]) -> np.ndarray:
    """Read the log-probability of each secret, nats, in order; NaN beyond the budget."""
    log_probs = np.full(len(secrets), np.nan)
    if predictor.readable < Access.SCORE:
        return log_probs
    lengths = [len(continuation(predictor.tokenizer, s.prefix, s.value)) for s in secrets]
    n = affordable(lengths, predictor.remaining)
    prefixes, values = [s.prefix for s in secrets[:n]], [s.value for s in secrets[:n]]
    log_probs[:n] = log_probs_of(predictor, prefixes, values)
    return log_probs


def log_probs_of(
    predictor: Predictor, prefixes: Sequence[str], values: Sequence[str]
) -> np.ndarray:
    """Sum the log-probability of each value after its prefix, nats; NaN if STOP interrupted it."""
    tokenizer = predictor.tokenizer
    log_probs = []
    for first in range(0, len(values), _SCORED_AT_ONCE):
        some = slice(first, first + _SCORED_AT_ONCE)
        prompts = [[tokenizer.start, *tokenizer.encode(prefix)] for prefix in prefixes[some]]
        tails = [
            continuation(tokenizer, prefix, value)
            for prefix, value in zip(prefixes[some], values[some], strict=True)
        ]
        log_probs += [
            float(answer.log_probs.sum()) if answer.answered == len(tail) else np.nan
            for answer, tail in zip(predictor.score(prompts, tails), tails, strict=True)
        ]
    return np.array(log_probs)
