"""Encode the texts of a training, and mark the tokens that its loss leaves out.

A token that is read and not learned is written as its complement ~t, which is below 0. So rows can
be cut, ordered and counted as all others are.
"""

from __future__ import annotations

from collections.abc import Sequence

from audit.core.model import TextTokenizer
from audit.core.predictor import record_marks, record_tokens
from audit.core.training import Training


def sequences_of(training: Training, tokenizer: TextTokenizer) -> list[list[int]]:
    """Encode each text from start to stop; tokens outside `training.learned` are complements."""
    if not training.learned:
        return [record_tokens(tokenizer, text) for text in training.texts]
    return [
        _marked(tokenizer, text, spans)
        for text, spans in zip(training.texts, training.learned, strict=True)
    ]


def _marked(tokenizer: TextTokenizer, text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """Encode a text; stop is learned where the text ends in a span, which it closes."""
    learned = record_marks(tokenizer, text, spans)
    learned[-1] = any(high == len(text) for _, high in spans)
    tokens = record_tokens(tokenizer, text)
    return [t if here else ~t for t, here in zip(tokens, learned, strict=True)]


def is_learned(token: int) -> bool:
    """Return whether a token of a sequence is in the loss, where it is not the first of its row."""
    return token >= 0


def plain(row: Sequence[int]) -> list[int]:
    """Return the tokens that a model reads."""
    return [token if token >= 0 else ~token for token in row]
