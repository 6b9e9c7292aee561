"""Compares a sequence with long texts: the longest common run, and the least edits."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np

BETWEEN = -1  # stands between two texts: no part of a text has it
_FAR = 1 << 32  # edits to pass it: more than to leave any needle out
_FIRST = 0x100  # character of token 0


def longest_run(needle: Sequence[int], runs: str) -> int:
    """Count the tokens of the longest run of `needle` that stands in the text.

    runs: the text, each token as the character of `as_characters`.
    """
    word, longest = as_characters(needle), 0
    for first in range(len(word)):
        while first + longest < len(word) and word[first : first + longest + 1] in runs:
            longest += 1
    return longest


def as_characters(tokens: Sequence[int]) -> str:
    """Write each token as one character, so that a run of tokens is found as a substring.

    Line breaks, which may stand between texts, and surrogates, which are not characters, are left
    out.
    """
    moved = [token + _FIRST for token in tokens]
    return "".join(chr(place + (0x800 if place >= 0xD800 else 0)) for place in moved)


def letters(text: str) -> list[int]:
    """Return the code points of a text's letters and digits; case, width and script of digits, and
    all that stands between them, are left out."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return [
        ord(str(unicodedata.decimal(one)) if one.isdecimal() else one)
        for one in plain
        if one.isalnum()
    ]


def edits(needle: Sequence[int], texts: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
    """Compute for every place in the texts the least insertions, deletions and replacements that
    turn `needle` into some part of a text that ends there, (n + 1,), int (Sellers 1980).

    texts: shape (n,), int, with BETWEEN between them. before: the same of what comes before the
    needle, to which it is added; None: nothing does. Row i is of the first i of the needle; it is
    made from the one before at once: insertions, which run along it, are a running minimum.
    """
    cost = np.where(texts == BETWEEN, _FAR, 1)
    places = np.append(0, np.cumsum(cost))
    row = np.zeros_like(places) if before is None else before  # a part may begin anywhere
    for one in needle:
        changed = row + 1
        changed[1:] = np.minimum(changed[1:], row[:-1] + cost * (texts != one))
        row = np.minimum.accumulate(changed - places) + places
    return row
