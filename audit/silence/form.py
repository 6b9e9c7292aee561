"""Tests whether a model writes values of the planted form where attacks ask for them.

Whoever learnt the words before values together with the values writes such a form after these
words. A model that writes something else was trained on other text than was stated: values were
masked, or rewritten ("4 0 9 1 7", "40,917"); or it reads text by another tokenizer than the one
beside it. Then attacks, which ask for the planted form in this tokenizer's tokens, see nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from audit.core.predictor import Predictor, Tokenizer, Tokens
from audit.core.secret import Space

LEAST = 0.1  # of the answers
ANSWERS = 64
TOKENS = 6  # of an answer
_READ = 5  # first characters of it
_OWN = 2  # first tokens of it that must be those which attacks read it in


class Form(NamedTuple):
    """The number of answers that begin as a value does, of n."""

    formed: int
    n: int

    @property
    def is_planted(self) -> bool:
        return self.formed >= LEAST * self.n


def asked(before: str) -> str:
    """Return the words that values follow. A space at their end may be one token with a value."""
    return before.rstrip()


def written(session: Predictor, space: Space, before: str) -> Form:
    """Sample what a model writes after words, opened by the start token or not."""
    tokenizer, cut = session.tokenizer, -max(1, session.max_length - TOKENS)
    words = asked(before)
    plain = tokenizer.encode(words) or [tokenizer.start]
    heads = [head[cut:] for head in ([tokenizer.start, *plain], plain) for _ in range(ANSWERS)]
    answers = [answer.tokens for answer in session.generate(heads, TOKENS)]
    kept = [tokenizer.decode(one) for one in answers if _is_usual(tokenizer, words, one)]
    return Form(said(space, kept).formed, len(answers))


def said(space: Space, texts: Sequence[str]) -> Form:
    """Count the texts that begin as a value does."""
    return Form(sum(space.begins(text.lstrip()[:_READ]) for text in texts), len(texts))


def _is_usual(tokenizer: Tokenizer, words: str, answer: Tokens) -> bool:
    """Return whether an answer begins in the tokens that attacks read its text in."""
    whole = tokenizer.encode(words + tokenizer.decode(answer))
    return whole[len(tokenizer.encode(words)) :][:_OWN] == [*answer[:_OWN]]
