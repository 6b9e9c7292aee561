"""Spans of private characters: joining them, masking them, mapping them to tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

Span = tuple[int, int]  # [first character, one past the last)


def disjoint(spans: Iterable[Span]) -> list[Span]:
    """Sorts spans and joins overlapping ones; spans that only touch stay separate."""
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def runs(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Groups disjoint spans into maximal runs of touching ones; a run is one value."""
    run: list[Span] = []
    for span in disjoint(spans):
        if run and run[-1][1] < span[0]:
            yield run
            run = []
        run.append(span)
    if run:
        yield run


def merged(spans: Iterable[Span]) -> list[Span]:
    """Sorts spans and joins touching and overlapping ones: one span a value."""
    return [(run[0][0], run[-1][1]) for run in runs(spans)]


def redacted(text: str, spans: Iterable[Span], mask: str) -> str:
    """Replaces every merged span by one `mask`."""
    pieces, end = [], 0
    for low, high in merged(spans):
        pieces += [text[end:low], mask]
        end = high
    return "".join([*pieces, text[end:]])


def token_mask(ends: Sequence[int], spans: Iterable[Span]) -> list[bool]:
    """Decides which tokens are private: those whose characters overlap a span.

    ends: number of characters up to the end of each token; they never decrease.
    A token without characters may hold bytes of a character that the tokenizer split, so it is
    private if a span contains or touches its place.
    """
    values = merged(spans)
    if not values and sorted(ends) == list(ends):
        return [False] * len(ends)
    lows, highs = [low for low, _ in values], [high for _, high in values]
    mask, start = [], 0
    for end in ends:
        if end < start:
            raise ValueError(f"ends of tokens decrease from {start} to {end}")
        empty = start == end
        # first value that ends after the token's start (for an empty token: not before it)
        first = bisect_left(highs, start) if empty else bisect_right(highs, start)
        mask.append(first < len(values) and lows[first] < end + empty)
        start = end
    return mask
