"""Measures perplexity and next-token accuracy on held-out text.

Every release of a run is measured on the same first held-out tokens, so that their figures can be
laid side by side; where queries are free, the whole held-out text is measured too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.core.heldout import Heldout
from audit.core.predictor import (
    Answer,
    Predictor,
    Tokenizer,
)
from audit.results.schema import Measure
from audit.statistics.bootstrap import bootstrap_ratio
from audit.statistics.interval import Interval

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
    whole = whole and predictor.remaining is None
    first = text.first(tokens)
    read = text.first(FULL_TOKENS) if whole else first
    answers = predictor.score([b[:1] for b in read.blocks], [b[1:] for b in read.blocks])
    answered = sum(answer.answered for answer in answers)
    if not answers:
        return {}, 0, 0
    head = _cut(answers, first)
    utility = _measures(head, first, predictor.tokenizer, stream)
    if whole:
        utility["perplexity_full"] = _perplexity(answers, stream, None)
    return utility, sum(len(answer.tokens) for answer in answers), answered


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


def _measures(
    answers: Sequence[Answer], text: Heldout, tokenizer: Tokenizer, stream: np.random.Generator
) -> dict[str, Measure]:
    answered = sum(answer.answered for answer in answers)
    tokens = [len(answer.tokens) for answer in answers]
    nats = [-float(answer.log_probs[_text(answer, tokenizer)].sum()) for answer in answers]
    bits = [value / math.log(2) for value in nats]
    size = [_bytes(answer, tokenizer) for answer in answers]
    right = [float(answer.top1.sum()) for answer in answers]
    utility = {
        "perplexity": _perplexity(answers, stream, answered),
        "bits_per_byte": _of(bootstrap_ratio(bits, size, stream), "bits per byte", answered),
        "top1_accuracy": _of(bootstrap_ratio(right, tokens, stream), "share of tokens", answered),
    }
    lowest = _lowest_perplexity(answers, stream, answered)
    if lowest is not None:
        utility["perplexity_lower_bound"] = lowest
    private = _private_perplexity(answers, text.marks, stream)
    if private is not None:
        utility["private_token_perplexity"] = private
    return utility


def _text(answer: Answer, tokenizer: Tokenizer) -> list[int]:
    """Returns the places of text tokens: all but the one that closes a record."""
    return [i for i, token in enumerate(answer.tokens) if token != tokenizer.stop]


def _bytes(answer: Answer, tokenizer: Tokenizer) -> int:
    text = [answer.tokens[i] for i in _text(answer, tokenizer)]
    return len(tokenizer.decode(text).encode())


def _perplexity(
    answers: Sequence[Answer], stream: np.random.Generator, answered: int | None
) -> Measure:
    """Computes exp(mean token NLL), natural logarithm."""
    nll = [-float(answer.log_probs.sum()) for answer in answers]
    tokens = [len(answer.tokens) for answer in answers]
    return _of(bootstrap_ratio(nll, tokens, stream, transform=np.exp), "perplexity", answered)


def _lowest_perplexity(
    answers: Sequence[Answer], stream: np.random.Generator, answered: int
) -> Measure | None:
    """Computes the bound that a paper reports; None where the answers have no bounds."""
    capped = [replace(a, log_probs=a.log_caps) for a in answers if a.log_caps is not None]
    if len(capped) < len(answers):
        return None
    bound = _perplexity(capped, stream, answered)
    return bound.model_copy(update={"bound": "lower"})


def _private_perplexity(
    answers: Sequence[Answer], marks: Sequence[Sequence[bool]], stream: np.random.Generator
) -> Measure | None:
    """Computes the perplexity of the private tokens; None where there are none."""
    nll, counts = [], []
    for answer, private in zip(answers, marks, strict=False):
        marked = [i for i in range(len(answer.tokens)) if private[i + 1]]
        nll.append(-float(answer.log_probs[marked].sum()))
        counts.append(len(marked))
    if not sum(counts):
        return None
    interval = bootstrap_ratio(nll, counts, stream, transform=np.exp)
    return _of(interval, "perplexity of private tokens", None)


def _of(interval: Interval, unit: str, answered: int | None) -> Measure:
    return Measure(
        value=interval.value if interval.value is not None else math.inf,
        ci=interval.ci,
        n=interval.n,
        confidence=interval.confidence,
        method=interval.method,
        unit=unit,
        answered=answered,
    )
