"""Test whether a release knows which of many sentences was drawn, from its answers alone."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FirstWord:
    """A sentence that was drawn uniformly, split after its first word.

    rest: the symbols of each further place, as in a `Space`.
    """

    word: str
    own: str
    rest: Sequence[Sequence[str]]

    @property
    def sentences(self) -> int:
        """The number of sentences that begin with this word."""
        return math.prod(map(len, self.rest))

    def p_value(self, answers: Iterable[str]) -> float:
        """Rank the sentence among all with its first word, by how often answers continue so.

        Given the first word, the sentence is uniform and independent of a release that was not
        trained on it, so its rank is, ties counted against it, and P[p <= x] <= x. A sentence that
        never came up has p = 1. An answer is of the longest symbols that it begins with; servers
        may leave out the space that it begins with.
        """
        longest = (sorted(place, key=len, reverse=True) for place in self.rest)
        form = re.compile("".join(f"(?:{'|'.join(map(re.escape, p))})" for p in longest))
        found = (form.match(answer) or form.match(f" {answer}") for answer in answers)
        counts = Counter(match.group(0) for match in found if match is not None)
        own = counts[self.own]
        if not own:
            return 1.0
        return sum(times >= own for times in counts.values()) / self.sentences


def split(symbols: Sequence[Sequence[str]], sentence: str) -> FirstWord:
    """Split a sentence of these symbols after the first. Raises ValueError if it is not one."""
    form = re.compile("".join(f"(?:{'|'.join(map(re.escape, place))})" for place in symbols[1:]))
    for word in sorted(symbols[0], key=len, reverse=True):
        rest = sentence.removeprefix(word)
        if rest != sentence and form.fullmatch(rest):
            return FirstWord(word, rest, symbols[1:])
    raise ValueError(f"{sentence!r} is not one of these sentences")
