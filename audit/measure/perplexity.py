"""Measures perplexity and next-token accuracy on held-out text.

Every release of a run is measured on the same first held-out tokens, so that their figures can be
laid side by side; where queries are free, the whole held-out text is measured too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from audit.core.heldout import Heldout
from audit.core.predictor import (
    Answer,
    Predictor,
    Tokenizer,
)
from audit.measure.ratios import Ratio, measures
from audit.results.schema import Measure

FULL_TOKENS = 16_384  # at most so many held-out tokens are read for the full figures


def measure(
    predictor: Predictor,
    text: Heldout,
    tokens: int,
    stream: np.random.Generator,
    whole: bool = True,
) -> tuple[dict[str, Measure], int, int]:
    """Returns (utility by name, queries, queries answered before STOP).

    whole: whether a release without a budget reads FULL_TOKENS.
    """
    ratios, queries, answered = read(predictor, text, tokens, whole)
    return measures(ratios, stream), queries, answered


def read(
    predictor: Predictor, text: Heldout, tokens: int, whole: bool = True
) -> tuple[list[Ratio], int, int]:
    """Returns (utility as sums over blocks, queries, queries answered before STOP)."""
    whole = whole and predictor.remaining is None
    first = text.first(tokens)
    asked = text.first(FULL_TOKENS) if whole else first
    answers = predictor.score([b[:1] for b in asked.blocks], [b[1:] for b in asked.blocks])
    answered = sum(answer.answered for answer in answers)
    if not answers:
        return [], 0, 0
    ratios = _ratios(_cut(answers, first), first, predictor.tokenizer)
    if whole:
        ratios.append(_perplexity("perplexity_full", answers, None))
    return ratios, sum(len(answer.tokens) for answer in answers), answered


def _cut(answers: Sequence[Answer], text: Heldout) -> list[Answer]:
    lengths = [len(block) - 1 for block in text.blocks]
    return [
        replace(
            a,
            tokens=a.tokens[:n],
            log_probs=a.log_probs[:n],
            top1=a.top1[:n],
            answered=min(a.answered, n),
            log_caps=None if a.log_caps is None else a.log_caps[:n],
        )
        for a, n in zip(answers, lengths, strict=False)
    ]


def _ratios(answers: Sequence[Answer], text: Heldout, tokenizer: Tokenizer) -> list[Ratio]:
    answered = sum(answer.answered for answer in answers)
    tokens = [len(answer.tokens) for answer in answers]
    nats = [-float(answer.log_probs[_text(answer, tokenizer)].sum()) for answer in answers]
    bits = [value / math.log(2) for value in nats]
    size = [_bytes(answer, tokenizer) for answer in answers]
    right = [float(answer.top1.sum()) for answer in answers]
    return [
        _perplexity("perplexity", answers, answered),
        Ratio("bits_per_byte", bits, size, "bits per byte", answered),
        Ratio("top1_accuracy", right, tokens, "share of tokens", answered),
        *_lowest_perplexity(answers, answered),
        *_private_perplexity(answers, text.marks),
    ]


def _text(answer: Answer, tokenizer: Tokenizer) -> list[int]:
    """Returns the places of text tokens: all but the one that closes a record."""
    return [i for i, token in enumerate(answer.tokens) if token != tokenizer.stop]


def _bytes(answer: Answer, tokenizer: Tokenizer) -> int:
    text = [answer.tokens[i] for i in _text(answer, tokenizer)]
    return len(tokenizer.decode(text).encode())


def _perplexity(name: str, answers: Sequence[Answer], answered: int | None) -> Ratio:
    """Sums up the token NLL; perplexity is exp of its mean, natural logarithm."""
    nll = [-float(answer.log_probs.sum()) for answer in answers]
    tokens = [len(answer.tokens) for answer in answers]
    return Ratio(name, nll, tokens, "perplexity", answered, exponential=True)


def _lowest_perplexity(answers: Sequence[Answer], answered: int) -> Iterator[Ratio]:
    """Sums up the bound that a paper reports, where the answers have bounds."""
    capped = [replace(a, log_probs=a.log_caps) for a in answers if a.log_caps is not None]
    if len(capped) == len(answers):
        bound = _perplexity("perplexity_lower_bound", capped, answered)
        yield replace(bound, bound="lower")


def _private_perplexity(
    answers: Sequence[Answer], marks: Sequence[Sequence[bool]]
) -> Iterator[Ratio]:
    """Sums up the NLL of the private tokens, where there are any."""
    nll, counts = [], []
    for answer, private in zip(answers, marks, strict=False):
        marked = [i for i in range(len(answer.tokens)) if private[i + 1]]
        nll.append(-float(answer.log_probs[marked].sum()))
        counts.append(len(marked))
    if sum(counts):
        unit = "perplexity of private tokens"
        yield Ratio("private_token_perplexity", nll, counts, unit, None, exponential=True)
