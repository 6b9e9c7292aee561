"""Reads a model's probability of each token of texts, in pieces that fit its context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.predictor import Access, Answer, Predictor, Tokens

RULED_OUT = -1e3  # nats: replaces −∞, so that models can be compared

Piece = tuple[Tokens, Tokens]  # a context, and the tokens to score after it


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading of the tokens of one text under one model.

    log_probs: shape (t,), nats: log-probability of each token, at least RULED_OUT; all NaN if the
        text was not fully answered before STOP.
    top1: shape (t,), bool: whether the token is the model's most likely one.
    moments: shape (2, t), nats: mean and standard deviation of log p(z), z ~ p, for the
        distribution p of each token; NaN if not read.
    """

    log_probs: np.ndarray
    top1: np.ndarray
    moments: np.ndarray


def pieces_of(head: Tokens, tail: Tokens, context: int) -> list[Piece]:
    """Cut a text into pieces that fit the context: the first sees as much of the head as fits,
    the next ones the last token of the piece before."""
    seen = head[-max(1, context + 1 - len(tail)) :]
    return [
        (tail[first - 1 : first] if first else seen, tail[first : first + context])
        for first in range(0, len(tail), context)
    ]


def read(
    session: Predictor, texts: Sequence[Sequence[Piece]], moments: bool = False
) -> list[Reading]:
    """Read all texts, given as their pieces, in one pass; moments where the session gives them."""
    pieces = [piece for text in texts for piece in text]
    heads, tails = [head for head, _ in pieces], [tail for _, tail in pieces]
    moments = moments and session.readable >= Access.DISTRIBUTION
    answers = iter(session.score(heads, tails, moments))
    return [_joined([next(answers) for _ in text]) for text in texts]


def _joined(answers: Sequence[Answer]) -> Reading:
    log_probs = np.concatenate([answer.log_probs for answer in answers])
    answered = all(answer.answered == len(answer.tokens) for answer in answers)
    moments = [answer.moments for answer in answers if answer.moments is not None]
    return Reading(
        log_probs=np.maximum(log_probs, RULED_OUT if answered else np.nan),
        top1=np.concatenate([answer.top1 for answer in answers]),
        moments=np.concatenate(moments, axis=1) if moments else np.full((2, 1), np.nan),
    )


def mean_log_probs(session: Predictor, texts: Sequence[Sequence[Piece]]) -> np.ndarray:
    """Compute the mean log-probability of a token of each text, shape (n,), nats."""
    return np.array([reading.log_probs.mean() for reading in read(session, texts)])
