"""Encode the texts of a training, and mark the tokens that its loss leaves out.

A token that is read and not learned is written as its complement ~t, which is below 0. So rows can
be cut, ordered and counted as all others are. Every part of a text knows its place there, so that a
step can note what it learnt from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, SupportsIndex, final

from audit.core.counts import Piece
from audit.core.model import TextTokenizer
from audit.core.predictor import record_marks, record_tokens
from audit.core.training import Training


@final
class Tokens(tuple[int, ...]):
    """Consecutive tokens of a text; a slice of them keeps its place.

    text: the place of the text among those of its training. first: the place of the first token in
    the text, where 0 is the start token.
    """

    text: int
    first: int

    def __new__(cls, tokens: Iterable[int], text: int, first: int = 0) -> Tokens:
        made = super().__new__(cls, tokens)
        made.text, made.first = text, first
        return made

    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        if not isinstance(at, slice):
            return super().__getitem__(at)
        first, _, step = at.indices(len(self))
        assert step == 1
        return Tokens(super().__getitem__(at), self.text, self.first + first)

    @cached_property
    def piece(self) -> Piece:
        """All tokens that are predicted from those before them, and which of them are learned."""
        return self.weighted([is_learned(token) for token in self[1:]])

    def weighted(self, weights: Sequence[float]) -> Piece:
        """Return the predicted tokens, of which those with a weight are learned."""
        return Piece(self.text, self.first + 1, bytes(weight > 0 for weight in weights))

    def read(self) -> Tokens:
        """Return the tokens that a model reads."""
        return Tokens(plain(self), self.text, self.first)


def pieces_of(rows: Iterable[object]) -> list[Piece]:
    """Return what is predicted in rows; those that are of no text of the training are left out."""
    return [row.piece for row in rows if isinstance(row, Tokens)]


def sequences_of(training: Training, tokenizer: TextTokenizer) -> list[Tokens]:
    """Encode each text from start to stop; tokens outside `training.learned` are complements."""
    texts = enumerate(training.texts)
    if not training.learned:
        return [Tokens(record_tokens(tokenizer, text), place) for place, text in texts]
    return [
        Tokens(_marked(tokenizer, text, spans), place)
        for (place, text), spans in zip(texts, training.learned, strict=True)
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
