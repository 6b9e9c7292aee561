"""BLEU on sentence completion: how close a release's own words come to the rest of held-out texts.

After SeqPATE (arXiv 2210.05281, section 6 and appendix E): a text is completed from its first four
tokens. Every release completes the same first records, few enough for a session's budget of 1,024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.predictor import Predictor, Tokenizer, Tokens
from audit.results.schema import Measure
from audit.statistics.bleu import Counts, bleu, counts

PREFIX = 4  # tokens of the text that are given, after the start token
LONGEST = 40  # tokens of a text that are looked at; a text this long or shorter is whole
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
    """The first `most` texts that have a rest, cut after `longest` tokens."""
    found: list[Unfinished] = []
    for text in texts:
        if len(found) == most:
            break
        tokens = tokenizer.encode(text)[:longest]
        if len(tokens) > PREFIX:
            prompt = (tokenizer.start, *tokens[:PREFIX])
            found.append(Unfinished(prompt, tuple(tokens[PREFIX:])))
    return found


def measure(
    predictor: Predictor, texts: Sequence[str], stream: np.random.Generator
) -> tuple[dict[str, Measure], int, int]:
    """(BLEU by name, queries asked, queries answered before STOP).

    One call asks for all completions, as long as the longest rest, so that a model reads them
    together; each is then cut to its own rest's length, and at a stop token.
    """
    most = RECORDS if predictor.remaining is not None else FULL_RECORDS
    longest = min(LONGEST, predictor.max_length)
    asked = unfinished(texts, predictor.tokenizer, most, longest)
    if not asked:
        return {}, 0, 0
    length = max(len(one.rest) for one in asked)
    answers = predictor.generate([one.prompt for one in asked], length)
    tokens = [answer.tokens for answer in answers]
    answered = [answer.answered for answer in answers]
    segments = _counts(asked, tokens, predictor.tokenizer)
    first = segments[:RECORDS]
    read = sum(min(a, len(o.rest)) for a, o in zip(answered, asked[:RECORDS], strict=False))
    utility = {f"bleu{order}": _measure(first, order, stream, read) for order in (3, 4)}
    if predictor.remaining is None:
        utility["bleu4_full"] = _measure(segments, 4, stream, None)
    return utility, sum(map(len, tokens)), sum(answered)


def _counts(asked: Sequence[Unfinished], said: Sequence[Tokens], tokenizer: Tokenizer) -> Counts:
    cut = [
        _until(tokenizer.stop, tokens[: len(one.rest)])
        for one, tokens in zip(asked, said, strict=True)
    ]
    rests = [tokenizer.decode(one.rest) for one in asked]
    return counts([tokenizer.decode(tokens) for tokens in cut], rests)


def _until(stop: int, tokens: Tokens) -> list[int]:
    """The tokens before the first stop token."""
    kept = list(tokens)
    return kept[: kept.index(stop)] if stop in kept else kept


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
