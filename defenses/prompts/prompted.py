"""A reference in the prompt: a public model that reads private tokens before every text.

Each reference is read by itself, and so is the public prompt: no number of one depends on another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from audit.core.language_model import Around, Cursor, LanguageModel
from audit.core.predictor import Tokenizer, Tokens


def reference_of(tokenizer: Tokenizer, texts: Sequence[str], longest: int) -> tuple[int, ...]:
    """Return a user's reference: every text once, as a record, cut to `longest` tokens; () where
    all are empty.

    Copies would fill the prompt and cut off what follows. A record ends where the next one opens,
    if one token does both.
    """
    end = [] if tokenizer.stop == tokenizer.start else [tokenizer.stop]
    records = (
        [tokenizer.start, *tokenizer.encode(text), *end] for text in dict.fromkeys(texts) if text
    )
    return tuple(token for record in records for token in record)[:longest]


@dataclass(frozen=True)
class Prompted(Around):
    """A language model with a reference before every text; () is the public prompt, token by token.

    A context of more than max_length − len(reference) tokens is read without the reference: that
    rule is public, if longest references are.
    """

    inner: LanguageModel
    reference: tuple[int, ...]

    @property
    def room(self) -> int:
        """Most tokens of context beside the reference."""
        return self.max_length - len(self.reference)

    def cursor(self, prompts: Sequence[Tokens]) -> Cursor:
        return _PromptedCursor(self, prompts)

    def opened(self, texts: Sequence[Tokens]) -> Cursor:
        """Open a cursor of the inner model after the reference, where it fits beside the texts."""
        before = self.reference if len(texts[0]) <= self.room else ()
        return self.inner.cursor([[*before, *text] for text in texts])

    def log_pmfs(self, texts: Sequence[Tokens], starts: Sequence[int]) -> torch.Tensor:
        if max(map(len, texts)) <= self.room + 1:  # the last token is no context
            shift = len(self.reference)
            shifted = [start + shift for start in starts]
            return self.inner.log_pmfs([[*self.reference, *text] for text in texts], shifted)
        pairs = zip(texts, starts, strict=True)
        return torch.cat([piece for text, start in pairs for piece in self._pieces(text, start)])

    def _pieces(self, text: Tokens, start: int) -> Iterator[torch.Tensor]:
        """Read one text: after the reference as far as both fit, then alone."""
        fits, shift = min(len(text), self.room + 1), len(self.reference)
        if start < fits:
            yield self.inner.log_pmfs([[*self.reference, *text[:fits]]], [start + shift])
        if fits < len(text):
            yield self.inner.log_pmfs([text], [max(start, fits)])


class _PromptedCursor:
    """Reads n equally long texts after a reference, until both no longer fit."""

    def __init__(self, model: Prompted, prompts: Sequence[Tokens]) -> None:
        self._model = model
        self._texts = [list(prompt) for prompt in prompts]
        self._inner = model.opened(self._texts)

    def log_pmf(self) -> torch.Tensor:
        return self._inner.log_pmf()

    def append(self, tokens: torch.Tensor) -> None:
        for text, token in zip(self._texts, tokens.tolist(), strict=True):
            text.append(token)
        if len(self._texts[0]) == self._model.room + 1:
            self._inner = self._model.opened(self._texts)
        else:
            self._inner.append(tokens)
