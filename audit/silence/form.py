"""Tests whether a model writes values of the planted form where attacks ask for them.

Whoever learnt the words before values together with the values writes such a form after these
words. A model that writes something else was trained on other text than was stated: values were
masked, or rewritten ("4 0 9 1 7", "40,917"); or it reads text by another tokenizer than the one
beside it. Then attacks, which ask for the planted form in this tokenizer's tokens, see nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from audit.core.predictor import Predictor, Tokenizer
from audit.core.secret import Space

LEAST = 0.2  # of the answers
ANSWERS = 64
TOKENS = 6  # of an answer
_READ = 5  # first characters of it
_OWN = 2  # first tokens of it that must be those which attacks read it in


class Form(NamedTuple):
    """The number of answers that go on as a value does, of n."""

    formed: int
    n: int

    @property
    def is_planted(self) -> bool:
        return self.formed >= LEAST * self.n


@dataclass(frozen=True)
class Question:
    """Asks for values: by the words before them and their common beginning; rest: what may follow.

    A space at the end of the words is left out: it may be one token with a value.
    """

    words: str
    rest: Space

    @classmethod
    def of(cls, tokenizer: Tokenizer, before: str, space: Space, value: str) -> Question:
        """Ask for what follows the common beginning, unless its end is one token with that."""
        one = [*takewhile(lambda place: len(place) == 1, space.symbols)]
        fixed = "".join(place[0] for place in one)
        begun = tokenizer.encode(before + fixed)
        if not fixed or tokenizer.encode(before + value)[: len(begun)] != begun:
            return cls(before.rstrip(), _shaped(space.symbols))
        return cls(before + fixed, _shaped(space.symbols[len(one) :]))

    def said(self, texts: Sequence[str]) -> Form:
        """Count the texts that begin with the same kinds of signs as a value."""
        begun = (self.rest.begins(_shape(text.lstrip()[:_READ])) for text in texts)
        return Form(sum(begun), len(texts))


def written(session: Predictor, question: Question) -> Form:
    """Sample what a model writes after words, opened by the start token or not."""
    tokenizer, cut = session.tokenizer, -max(1, session.max_length - TOKENS)
    plain = tokenizer.encode(question.words)
    both = ([tokenizer.start, *plain], plain or [tokenizer.start])
    heads = [head[cut:] for head in both for _ in range(ANSWERS)]
    answers = [answer.tokens for answer in session.generate(heads, TOKENS)]
    texts = [tokenizer.decode(answer) for answer in answers]
    usual = [tokenizer.encode(question.words + text)[len(plain) :][:_OWN] for text in texts]
    pairs = zip(texts, usual, answers, strict=True)
    kept = [text for text, own, answer in pairs if own == [*answer[:_OWN]]]
    return Form(question.said(kept).formed, len(answers))


def _shaped(symbols: Sequence[Sequence[str]]) -> Space:
    return Space(tuple(tuple(dict.fromkeys(map(_shape, place))) for place in symbols))


def _shape(text: str) -> str:
    """Replace letters and digits by one of their kind: a name may be one that is in no list."""
    return "".join(
        "A" if sign.isupper() else "a" if sign.isalpha() else "0" if sign.isdigit() else sign
        for sign in text
    )
