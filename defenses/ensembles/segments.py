"""Group the queries of texts, so that the queries of a group are read together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.core.predictor import Tokens


@dataclass(frozen=True)
class Sizes:
    """The most that is read together.

    queries: of several texts. longest: queries of one text, and of several that are padded. tokens:
        of several texts from their beginnings.
    """

    queries: int
    longest: int
    tokens: int


def grouped(
    starts: Sequence[int], stops: Sequence[int], sizes: Sizes
) -> Iterator[list[tuple[int, int, int]]]:
    """Group (text, start, stop), in order, so that each group is read at once.

    Only a text that needs more queries than the longest may is cut.
    """
    group: list[tuple[int, int, int]] = []
    for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        for first in range(start, stop, sizes.longest):
            one = (i, first, min(stop, first + sizes.longest))
            if group and _are_too_many([*group, one], sizes):
                yield group
                group = []
            group.append(one)
    if group:
        yield group


def _are_too_many(group: Sequence[tuple[int, int, int]], sizes: Sizes) -> bool:
    queries = sum(stop - start for _, start, stop in group)
    first, last = min(start for _, start, _ in group), max(stop for _, _, stop in group)
    padded, tokens = len(group) * (last - first), len(group) * last
    return queries > sizes.queries or padded > sizes.longest or tokens > sizes.tokens


def unanswered(
    texts: Sequence[Tokens], starts: Sequence[int], answered: int
) -> tuple[list[Tokens], list[int]]:
    """Return the texts with queries after the first `answered`, and where these queries start."""
    rest, begins = list[Tokens](), list[int]()
    for text, start in zip(texts, starts, strict=True):
        begin = min(start + answered, len(text))
        answered -= begin - start
        if begin < len(text):
            rest.append(text)
            begins.append(begin)
    return rest, begins
