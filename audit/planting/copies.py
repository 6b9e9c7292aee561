"""Makes the record of each planted copy, whether its owner has a coin or it is a beacon's.

Each copy has words of its own after its text, in the same line, up to a length of its own that is
drawn alike for all copies. So filters of equal texts, of texts that are nearly equal, and of
lengths treat all copies alike, whoever wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.chat import PLAIN, Manner, conversation
from audit.core.corpus import Record
from audit.corpora.conversations import plain
from audit.planting.kinds import plain_words

LEAST, MOST = 1.3, 1.7  # lengths of a copy, in lengths of the longest text without its own words


@dataclass(frozen=True)
class Copy:
    """A planted text in a record of `user`. padded: whether words of its own follow."""

    text: str
    user: str
    padded: bool = True


def records(
    copies: Sequence[Copy],
    split: str,
    turn: str | None,
    generator: np.random.Generator,
    manner: Manner = PLAIN,
) -> Iterator[Record]:
    """Make the record of each copy, as a turn of a conversation or as plain text.

    manner: of conversations.
    """
    longest = max((len(copy.text) for copy in copies if copy.padded), default=0)
    for copy in copies:
        text = _padded(copy.text, longest, generator) if copy.padded else copy.text
        messages = () if turn is None else conversation(turn, text, manner)
        written = plain(messages) if messages else text
        yield Record(copy.user, written, split=split, messages=messages)


def _padded(text: str, longest: int, generator: np.random.Generator) -> str:
    """Add words up to a length that depends on no text but the longest."""
    length = generator.uniform(LEAST, MOST) * longest
    words = plain_words()
    while len(text) < length:
        text += f" {words[int(generator.integers(len(words)))]}"
    return f"{text}."
