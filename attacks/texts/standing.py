"""Finds whose records a piece of text stands in, whatever quotes, breaks and case are around it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping

from audit.core.corpus import Record
from audit.core.visible import composed
from audit.core.words import UNSPACED

# a word, or one character of a script that sets no spaces between words
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_ANCHOR = 4  # first words by which a piece is looked up

Words = tuple[str, ...]


def words_of(text: str) -> Words:
    """Split a text into words without case, signs, spaces and the width of letters and digits."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", composed(text)).casefold()))


def whole_words(piece: str) -> Words:
    """Split a piece cut from a text into its words, less those that the cut may have divided.

    Fewer words stand in more texts, so what is found to stand nowhere else does stand nowhere else.
    """
    words = words_of(piece)
    first = 1 if _joins(piece[:1]) else 0
    last = len(words) - (1 if _joins(piece[-1:]) else 0)
    return words[first:last]


def _joins(sign: str) -> bool:
    """Return whether a word may go on at a sign: a letter, a mark on one, or one not seen."""
    return sign.isalnum() or (bool(sign) and unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf"))


def stands_in(piece: Words, text: Words) -> bool:
    """Return whether the words of a piece stand in those of a text, one after the other."""
    return any(text[i : i + len(piece)] == piece for i in range(len(text) - len(piece) + 1))


def users_of(pieces: Collection[Words], records: Iterable[Record]) -> Mapping[Words, set[str]]:
    """Find the users in whose records each piece stands; those of public text have their own ids.

    A piece without a word stands everywhere, and has no entry.
    """
    found: dict[Words, set[str]] = {piece: set() for piece in pieces if piece}
    anchors: dict[Words, list[Words]] = {}
    for piece in found:
        anchors.setdefault(piece[:_ANCHOR], []).append(piece)
    lengths = sorted(set(map(len, anchors)))
    for record in records if found else ():
        words = words_of(record.text)
        for place in range(len(words)):
            for length in lengths:
                for piece in anchors.get(words[place : place + length], ()):
                    if words[place : place + len(piece)] == piece:
                        found[piece].add(record.user)
    return found
