"""Profile of words: how often each user uses those that several users share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from audit.confounding.profile import Check, Profile, Table, Texts
from audit.statistics.unlike import Norm

_WORD = re.compile(r"[぀-ヿ㐀-鿿]|[^\W぀-ヿ㐀-鿿]+")  # of Chinese and Japanese, each sign
_DIGIT = re.compile(r"\d")
_WORDS = 2_000  # columns: those of most users
_SHARED = 2  # users; a word of one user tells no two sides apart


def profile(users: Sequence[Texts]) -> Profile:
    """Compute the shares of shared words and digits in each user's words: (users, words).

    The words are the 2,000 that most users use, of either side; the last column is all others.
    """
    return Profile(Check.VOCABULARY, _shares(list(map(_counts, users))), Norm.HALF_SUM)


def bag(words: Profile) -> Profile:
    """Return a profile of words as a classifier reads it: square roots of shares."""
    return Profile(Check.CLASSIFIER, np.sqrt(words.rows), words.norm)


def _counts(texts: Texts) -> Counter[str]:
    """Count words, and each digit by itself: numbers are often of one user."""
    found = ((*_WORD.findall(text.casefold()), *_DIGIT.findall(text)) for text in texts)
    return Counter(chain.from_iterable(found))


def _shares(counts: Sequence[Counter[str]]) -> Table:
    users_of = Counter(word for own in counts for word in own)
    shared = [word for word, users in users_of.items() if users >= _SHARED]
    chosen = sorted(shared, key=lambda word: (-users_of[word], word))[:_WORDS]
    place = {word: i for i, word in enumerate(chosen)}
    rows = np.zeros((len(counts), len(chosen) + 1))
    for row, own in zip(rows, counts, strict=True):
        every = max(1, own.total())
        for word, times in own.items():
            row[place.get(word, -1)] += times / every
    return rows
