"""Measures perplexity and next-token accuracy on held-out text.

Every release of a run is measured on the same first held-out tokens, so that their figures can be
laid side by side. An opening that several records share is measured once: asked again, it is the
same query. Where queries are free, the whole held-out text is measured too, with its repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from audit.core.heldout import Heldout, Part
from audit.core.predictor import Answer, Predictor, Tokenizer
from audit.measure.ratios import Ratio

FULL_TOKENS = 16_384  # at most so many held-out tokens are read for the full figures


def read(
    predictor: Predictor, text: Heldout, tokens: int, whole: bool = True
) -> tuple[list[Ratio], int, int]:
    """Return (utility as sums over blocks, queries, queries answered before STOP).

    whole: whether a release without a budget reads FULL_TOKENS.
    """
    parts = text.once(tokens)
    if not parts:
        return [], 0, 0
    whole = whole and predictor.remaining is None
    asked = _score(predictor, text, _all(text, parts[-1]) if whole else parts)
    if not asked:  # a release that gives no scores
        return [], 0, 0
    answers = [_cut(asked[part.block], part) for part in parts] if whole else asked
    ratios = _ratios(answers, _marks(text, parts), predictor.tokenizer)
    if whole:
        ratios.append(_perplexity("perplexity_full", asked, None))
    return ratios, sum(len(a.tokens) for a in asked), sum(a.answered for a in asked)


def _all(text: Heldout, last: Part) -> list[Part]:
    """List the blocks of the full figures, up to the one of `last` at least."""
    reach = sum(len(block) - 1 for block in text.blocks[: last.block + 1])
    blocks = text.first(max(FULL_TOKENS, reach)).blocks
    return [Part(place, 1, len(block)) for place, block in enumerate(blocks)]


def _score(predictor: Predictor, text: Heldout, parts: Sequence[Part]) -> list[Answer]:
    """Ask for the tokens of each part after all that precedes them in its block."""
    before = [text.blocks[part.block][: part.start] for part in parts]
    asked = [text.blocks[part.block][part.start : part.stop] for part in parts]
    return predictor.score(before, asked)


def _marks(text: Heldout, parts: Sequence[Part]) -> list[tuple[bool, ...]]:
    """Mark for each part which of its tokens are private; empty without a policy."""
    return [text.marks[part.block][part.start : part.stop] for part in parts if text.marks]


def _cut(answer: Answer, part: Part) -> Answer:
    """Cut the answer to a whole block to one of its parts."""
    kept = slice(part.start - 1, part.stop - 1)
    return replace(
        answer,
        tokens=answer.tokens[kept],
        log_probs=answer.log_probs[kept],
        top1=answer.top1[kept],
        answered=min(max(answer.answered - part.start + 1, 0), len(part)),
        log_caps=None if answer.log_caps is None else answer.log_caps[kept],
    )


def _ratios(
    answers: Sequence[Answer], marks: Sequence[Sequence[bool]], tokenizer: Tokenizer
) -> list[Ratio]:
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
        *_private_perplexity(answers, marks),
    ]


def _text(answer: Answer, tokenizer: Tokenizer) -> list[int]:
    """Return the places of text tokens: all but the one that closes a record."""
    return [i for i, token in enumerate(answer.tokens) if token != tokenizer.stop]


def _bytes(answer: Answer, tokenizer: Tokenizer) -> int:
    text = [answer.tokens[i] for i in _text(answer, tokenizer)]
    return len(tokenizer.decode(text).encode())


def _perplexity(name: str, answers: Sequence[Answer], answered: int | None) -> Ratio:
    """Sum up the token NLL; perplexity is exp of its mean, natural logarithm."""
    nll = [-float(answer.log_probs.sum()) for answer in answers]
    tokens = [len(answer.tokens) for answer in answers]
    return Ratio(name, nll, tokens, "perplexity", answered, exponential=True)


def _lowest_perplexity(answers: Sequence[Answer], answered: int) -> Iterator[Ratio]:
    """Sum up the bound that a paper reports, where the answers have bounds."""
    capped = [replace(a, log_probs=a.log_caps) for a in answers if a.log_caps is not None]
    if len(capped) == len(answers):
        bound = _perplexity("perplexity_lower_bound", capped, answered)
        yield replace(bound, bound="lower")


def _private_perplexity(
    answers: Sequence[Answer], marks: Sequence[Sequence[bool]]
) -> Iterator[Ratio]:
    """Sum up the NLL of the private tokens, where there are any."""
    nll, counts = [], []
    for answer, private in zip(answers, marks, strict=False):
        marked = [i for i in range(len(answer.tokens)) if private[i]]
        nll.append(-float(answer.log_probs[marked].sum()))
        counts.append(len(marked))
    if sum(counts):
        unit = "perplexity of private tokens"
        yield Ratio("private_token_perplexity", nll, counts, unit, None, exponential=True)
