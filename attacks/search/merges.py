"""Values of a space that show whether a tokenizer keeps the space's symbols apart."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from itertools import combinations, pairwise, product

from audit.core.predictor import ListingTokenizer, Tokenizer
from audit.core.randomness import stream

_ALL = 1000  # spaces of so many values are checked whole
_DRAWN = 1000  # values to draw from larger spaces
Symbols = tuple[tuple[str, ...], ...]  # of each place
Value = tuple[int, ...]  # the index of the symbol at each place


def pairs(symbols: Symbols) -> int:
    """Count the pairs of neighbouring symbols."""
    return sum(len(a) * len(b) for a, b in pairwise(symbols))


def around(part: Value, first: int, places: int) -> Value:
    """Make a value of these symbols from place `first` on, and the first symbol elsewhere."""
    return (*[0] * first, *part, *[0] * (places - first - len(part)))


def telling(tokenizer: Tokenizer, symbols: Symbols) -> Iterator[Value]:
    """Yield the values to check: if each is one token a symbol, all values of the space are.

    Exact for spaces of up to 1,000 values, for byte-pair encoding, which merges a pair before
    anything longer, and for longest-match and unigram models that list their vocabulary, which use
    a word wherever it stands or nowhere. Any other tokenizer is shown 1,000 values from a fixed
    stream; these miss a merge that one value in 200 contains with a probability of 1 %.
    """
    if math.prod(map(len, symbols)) <= _ALL:
        yield from product(*(range(len(place)) for place in symbols))
        return
    for first, (a, b) in enumerate(pairwise(symbols)):
        for pair in product(range(len(a)), range(len(b))):
            yield around(pair, first, len(symbols))
    if isinstance(tokenizer, ListingTokenizer):
        yield from _spelled(tokenizer.vocabulary(), symbols)
    sizes = [len(place) for place in symbols]
    drawn = stream(0, "values of a space").integers(sizes, size=(_DRAWN, len(sizes)))
    yield from map(tuple, drawn.tolist())


def _spelled(words: Collection[str], symbols: Symbols) -> Iterator[Value]:
    """Yield values that contain what a word, or a part of one, spells at three or more places."""
    text = "\n".join(words)
    known: dict[Symbols, list[Value]] = {}
    for first, last in combinations(range(len(symbols) + 1), 2):
        part = symbols[first:last]
        if last - first < 3:
            continue
        if part not in known:
            known[part] = sorted(_written(text, part))
        yield from (around(value, first, len(symbols)) for value in known[part])


def _written(text: str, symbols: Symbols) -> set[Value]:
    """Find all values of these places that are written somewhere in a text."""
    one = ("|".join(map(re.escape, place)) for place in symbols)
    anywhere = re.compile("(?=" + "".join(f"({symbol})" for symbol in one) + ")")
    return {
        tuple(place.index(s) for place, s in zip(symbols, found.groups(), strict=True))
        for found in anywhere.finditer(text)
    }
