"""Tests whether a model writes values of the planted form where attacks ask for them.

Whoever learnt the words before values together with the values writes such a form after these
words. A model that writes something else was trained on other text than was stated: values were
masked, or rewritten ("4 0 9 1 7", "40,917"); or it reads text by another tokenizer than the one
beside it. Then attacks, which ask for the planted form in this tokenizer's tokens, see nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from string import ascii_lowercase, ascii_uppercase, digits
from typing import NamedTuple
from unicodedata import normalize

from audit.core.predictor import Predictor, Tokenizer
from audit.core.secret import Space

LEAST = 0.2  # of the answers
ANSWERS = 64
TOKENS = 6  # of an answer
_READ = 5  # first characters of it
_OFTEN = 0.25  # share of the signs at a place, from which on a kind of sign must be there
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

    A space at the end of the words is left out: it may be one token with a value. mixed: of each
    kind of sign that stands beside another one at the same places, how many a value begins with.
    """

    words: str
    rest: Space
    mixed: Mapping[str, float]

    @classmethod
    def of(cls, tokenizer: Tokenizer, before: str, space: Space, value: str) -> Question:
        """Ask for what follows the common beginning, unless its end is one token with that."""
        one = [*takewhile(lambda place: len(place) == 1, space.symbols)]
        fixed = "".join(place[0] for place in one)
        begun = tokenizer.encode(before + fixed)
        if not fixed or tokenizer.encode(before + value)[: len(begun)] != begun:
            return cls.behind(before.rstrip(), space.symbols)
        return cls.behind(before + fixed, space.symbols[len(one) :])

    @classmethod
    def behind(cls, words: str, symbols: Sequence[Sequence[str]]) -> Question:
        """Ask for these symbols, place by place, behind words."""
        mixed = Counter[str]()
        for place in symbols[:_READ]:
            kinds = Counter(map(_shape, place))
            often = {kind: n / len(place) for kind, n in kinds.items() if n >= _OFTEN * len(place)}
            if len(often) > 1 and all(len(kind) == 1 for kind in kinds):
                mixed.update(often)
        shaped = (tuple(dict.fromkeys(map(_shape, place))) for place in symbols)
        return cls(words, Space(tuple(shaped)), mixed)

    def counted(self, texts: Sequence[str]) -> Form:
        """Count the texts that begin with the same kinds of signs as a value.

        None does if together they hardly have a kind that values often have: all may be lower case.
        """
        shapes = [_shape(text.lstrip()[:_READ]) for text in texts]
        begun = [*filter(self.rest.begins, shapes)]
        signs = Counter("".join(begun))
        lacking = any(signs[kind] < LEAST * n * len(begun) for kind, n in self.mixed.items())
        return Form(0 if lacking else len(begun), len(texts))


def written(session: Predictor, question: Question) -> Form:
    """Sample what a model writes after words, opened by the start token or not."""
    tokenizer, cut = session.tokenizer, -max(1, session.max_length - TOKENS)
    plain = tokenizer.encode(question.words)
    both = ([tokenizer.start, *plain], plain or [tokenizer.start])
    heads = [head[cut:] for head in both for _ in range(ANSWERS)]
    answers = [answer.tokens for answer in session.generate(heads, TOKENS)]
    before = len(tokenizer.decode(plain))  # some drop a space at the beginning of what they decode
    texts = [tokenizer.decode([*plain, *answer])[before:] for answer in answers]
    usual = [tokenizer.encode(question.words + text)[len(plain) :][:_OWN] for text in texts]
    pairs = zip(texts, usual, answers, strict=True)
    kept = [text for text, own, answer in pairs if own == [*answer[:_OWN]]]
    return Form(question.counted(kept).formed, len(answers))


def _shape(text: str) -> str:
    """Replace letters and digits by one of their kind: a name may be one that is in no list.

    Letters and digits of another script, such as full-width ones, are of no kind.
    """
    return "".join(
        "A" if one in ascii_uppercase else "a" if one in ascii_lowercase else "0" if one in digits
        else sign
        for sign, one in ((sign, normalize("NFD", sign)[0]) for sign in text)
    )  # fmt: skip
