"""Copies: looks for planted values in texts of the release, word for word and nearly so.

It needs nothing but texts, so it also attacks a release of synthetic text (--release text). Digits
after the words that codes were planted with are guesses, counted as in extraction; so are e-mail
addresses, phone numbers, keys and values of a pattern after theirs. A planted record
is scored by its longest run of tokens that stands in a text, any other value by the fewest edits of
its letters and digits that turn it into a part of one: 4-0-9 and ４０９ equal 409.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np

from attacks.texts.alignment import BETWEEN, as_characters, edits, letters, longest_run
from attacks.texts.guesses import form_of
from attacks.texts.released import texts_of
from audit.core.attack import Attack, Knowledge
from audit.core.evidence import Evidence, Hits, Scores, Successes
from audit.core.predictor import Access, Predictor
from audit.core.rules import at_least
from audit.core.secret import CODE_LIKE, KINDS, Secret
from audit.core.words import whole

Encode = Callable[[str], list[int]]

_APART = "\0"  # between two texts, so that no value that has several lines stands in both


@dataclass(frozen=True)
class Copies(Attack):
    """Looks for exact and near copies of every planted value in the texts of a release.

    texts: texts to generate where the release publishes none, fewer if the session's budget is too
        small; at least 1.
    length: tokens of each; at least 1.
    """

    texts: Annotated[int, at_least(1)] = 100
    length: Annotated[int, at_least(1)] = 64
    kinds = KINDS
    access = Access.GENERATE
    on_texts = True

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        """Return what no texts give: how many guesses they hold is not known beforehand."""
        return _found((), secrets, encode=lambda text: [])

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        texts = texts_of(predictor, self.texts, self.length)
        return _found(texts, secrets, predictor.tokenizer.encode)


def _found(texts: Sequence[str], secrets: Sequence[Secret], encode: Encode) -> list[Evidence]:
    """Look for guesses of short values, exact copies and near copies, of one kind at a time."""
    evidence: list[Evidence] = []
    for kind in dict.fromkeys(secret.kind for secret in secrets):
        evidence += [
            *([_guessed(texts, secrets, kind)] if kind in CODE_LIKE else []),
            _copied(texts, secrets, kind),
            _near(texts, secrets, kind, encode),
        ]
    return evidence


def _guessed(texts: Sequence[str], secrets: Sequence[Secret], kind: str) -> Hits:
    """Collect what has the form of a value after the words of planted ones, each a guess.

    One a text and wording: texts are drawn independently, what one of them repeats is not.
    """
    codes = [i for i, secret in enumerate(secrets) if secret.kind == kind]
    form = form_of(kind, [secrets[i] for i in codes])
    index = {(secrets[i].prefix, secrets[i].value): i for i in reversed(codes)}
    prefixes = dict.fromkeys(secrets[i].prefix for i in codes)
    stated = [
        (prefix, re.search(re.escape(prefix) + form, text)) for prefix in prefixes for text in texts
    ]
    guesses = [(prefix, match.group(1)) for prefix, match in stated if match is not None]
    repeats = tuple(Counter(guesses).values())
    found = [index.get(guess, -1) for guess in guesses]
    values = tuple(value for _, value in guesses)
    return Hits(np.array(found, dtype=np.int64), repeats, values, kind=kind)


def _copied(texts: Sequence[str], secrets: Sequence[Secret], kind: str) -> Successes:
    """Find the values that occur in a text verbatim, and not within a longer word or number."""
    every = _APART.join(texts)
    won = np.full(len(secrets), np.nan)
    for i, secret in enumerate(secrets):
        if secret.kind == kind and texts:
            won[i] = float(whole(secret.value.strip()).search(every) is not None)
    unit = f"share of planted {kind}s"
    return Successes(f"copied_{kind}", unit, won, None, Access.GENERATE, kind)


def _near(texts: Sequence[str], secrets: Sequence[Secret], kind: str, encode: Encode) -> Scores:
    """Score every value of a kind: higher = nearer to a part of a text."""
    values = np.full(len(secrets), np.nan)
    of_kind = [i for i, secret in enumerate(secrets) if secret.kind == kind and texts]
    if of_kind:
        score = _runs(texts, encode) if kind == "record" else _edits(texts)
        values[of_kind] = [score(secrets[i]) for i in of_kind]
    score_of = "run" if kind == "record" else "edits"
    return Scores(score_of, kind, values, access=Access.GENERATE, kind=kind)


def _runs(texts: Sequence[str], encode: Encode) -> Callable[[Secret], int]:
    runs = "\n".join(as_characters(encode(text)) for text in texts)
    return lambda secret: longest_run(encode(secret.value), runs)


def _edits(texts: Sequence[str]) -> Callable[[Secret], int]:
    """Count edits of letters and digits, of a value and, where it was drawn, its words."""
    flat = np.array([one for text in texts for one in (*letters(text), BETWEEN)], dtype=np.int64)

    after = cache(lambda words: edits(letters(words), flat))  # many values follow the same words

    def near(secret: Secret) -> int:
        words = secret.prefix if secret.space is not None else ""
        return -int(edits(letters(secret.value), flat, after(words)).min())

    return near
