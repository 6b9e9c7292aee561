"""Measures BLEU on sentence completion: how close a release comes to the rest of held-out texts.

After SeqPATE (arXiv 2210.05281, section 6 and appendix E): a text is completed from its first four
tokens. Every release completes the same first records, few enough for a session's budget of 1,024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.predictor import Predictor, Tokenizer, Tokens, before
from audit.results.schema import Measure
from audit.statistics.bleu import Counts, bleu, counts

PREFIX = 4  # tokens of the text that are given, after the start token
LONGEST = 40  # tokens of a text that are read
RECORDS = 28  # held-out texts that every release completes: 28 · (40 − 4) ≤ 1,024 queries
FULL_RECORDS = 200  # that a release without a budget completes
SETTINGS = (PREFIX, LONGEST, RECORDS, FULL_RECORDS)  # public, the same in every run


@dataclass(frozen=True)
class Unfinished:
    """The beginning of a text, start token included, and the rest: 1 to LONGEST − PREFIX tokens."""

    prompt: tuple[int, ...]
    rest: tuple[int, ...]


def unfinished(
    texts: Sequence[str], tokenizer: Tokenizer, most: int, longest: int = LONGEST
) -> list[Unfinished]:
    """Take the first `most` texts that have a rest, cut after `longest` tokens."""
    texts_begun: list[Unfinished] = []
    for text in texts:
        if len(texts_begun) == most:
            break
        tokens = tokenizer.encode(text)[:longest]
        if len(tokens) > PREFIX:
            prompt = (tokenizer.start, *tokens[:PREFIX])
            texts_begun.append(Unfinished(prompt, tuple(tokens[PREFIX:])))
    return texts_begun


def measure(
    predictor: Predictor, texts: Sequence[str], stream: np.random.Generator, whole: bool = True
) -> tuple[dict[str, Measure], int, int]:
    """Return (BLEU by name, queries, queries answered before STOP).

    whole: whether a release without a budget completes FULL_RECORDS texts.
    One call asks for all completions, as long as the longest rest, so that a model reads them
    together; each is then cut to its own rest's length, and at a stop token.
    """
    whole = whole and predictor.remaining is None
    most = FULL_RECORDS if whole else RECORDS
    longest = min(LONGEST, predictor.max_length)
    begun = unfinished(texts, predictor.tokenizer, most, longest)
    if not begun:
        return {}, 0, 0
    length = max(len(one.rest) for one in begun)
    answers = predictor.generate([one.prompt for one in begun], length)
    tokens = [answer.tokens for answer in answers]
    answered = [answer.answered for answer in answers]
    segments = _counts(begun, tokens, predictor.tokenizer)
    first = segments[:RECORDS]
    read = sum(min(a, len(o.rest)) for a, o in zip(answered, begun[:RECORDS], strict=False))
    utility = {f"bleu{order}": _measure(first, order, stream, read) for order in (3, 4)}
    if whole:
        utility["bleu4_full"] = _measure(segments, 4, stream, None)
    return utility, sum(map(len, tokens)), sum(answered)


def _counts(
    begun: Sequence[Unfinished], generated: Sequence[Tokens], tokenizer: Tokenizer
) -> Counts:
    cut = [
        before(tokenizer.stop, tokens[: len(one.rest)])
        for one, tokens in zip(begun, generated, strict=True)
    ]
    rests = [tokenizer.decode(one.rest) for one in begun]
    return counts([tokenizer.decode(tokens) for tokens in cut], rests)


def _measure(
    segments: Counts, order: int, stream: np.random.Generator, answered: int | None
) -> Measure:
    interval = bleu(segments, order, stream)
    assert interval.value is not None  # there is at least one record
    return Measure(
        value=interval.value,
        ci=interval.ci,
        n=interval.n,
        confidence=interval.confidence,
        method=f"{interval.method}; sampled from the first {PREFIX} tokens",
        unit=f"BLEU-{order}",
        answered=answered,
    )
