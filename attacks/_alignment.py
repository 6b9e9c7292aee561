"""Compares token sequences with a long text: the longest common run, and the least edits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_FIRST = 0x100  # character of token 0


def longest_run(needle: Sequence[int], runs: str) -> int:
    """Counts the tokens of the longest run of `needle` that stands in the text.

    runs: the text, each token as the character of `as_characters`.
    """
    word, longest = as_characters(needle), 0
    for first in range(len(word)):
        while first + longest < len(word) and word[first : first + longest + 1] in runs:
            longest += 1
    return longest


def as_characters(tokens: Sequence[int]) -> str:
    """Writes each token as one character, so that a run of tokens is found as a substring.

    Line breaks, which may stand between texts, and surrogates, which are no characters, are left
    out.
    """
    moved = [token + _FIRST for token in tokens]
    return "".join(chr(place + (0x800 if place >= 0xD800 else 0)) for place in moved)


def least_edits(needle: Sequence[int], text: np.ndarray) -> int:
    """Computes the least insertions, deletions and replacements of tokens that turn `needle` into
    some part of the text (Sellers 1980).

    text: shape (n,), int. Row i holds, for every place in the text, the least edits of the first i
    tokens that end there. A row is made from the one before at once: insertions, which run along
    it, are a running minimum.
    """
    places = np.arange(len(text) + 1)
    row = np.zeros(len(text) + 1, dtype=np.int64)  # a part may begin anywhere
    for token in needle:
        changed = np.empty_like(row)
        changed[0] = row[0] + 1
        changed[1:] = np.minimum(row[:-1] + (text != token), row[1:] + 1)
        row = np.minimum.accumulate(changed - places) + places
    return int(row.min())
