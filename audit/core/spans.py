"""Spans of private characters: joining them, masking them, mapping them to tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

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
    values = np.array(merged(spans), dtype=int).reshape(-1, 2)
    to = np.asarray(ends, dtype=int)
    start = np.concatenate([[0], to[:-1]])
    if (to < start).any():
        at = int(np.argmax(to < start))
        raise ValueError(f"ends of tokens decrease from {start[at]} to {to[at]}")
    lows, highs = values.T
    empty = start == to
    # first value that ends after the token's start (for an empty token: not before it)
    first = np.where(empty, np.searchsorted(highs, start), np.searchsorted(highs, start, "right"))
    begins = np.append(lows, np.iinfo(int).max)[first]
    mask: list[bool] = (begins < to + empty).tolist()
    return mask
