"""Spans of private characters: joining them, masking them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Span = tuple[int, int]  # [first character, one past the last)


def disjoint(spans: Iterable[Span]) -> list[Span]:
    """Sort spans and join overlapping ones; spans that only touch stay separate."""
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def runs(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Group disjoint spans into maximal runs of touching ones; a run is one value."""
    run: list[Span] = []
    for span in disjoint(spans):
        if run and run[-1][1] < span[0]:
            yield run
            run = []
        run.append(span)
    if run:
        yield run


def merged(spans: Iterable[Span]) -> list[Span]:
    """Sort spans and join touching and overlapping ones: one span a value."""
    return [(run[0][0], run[-1][1]) for run in runs(spans)]


def redacted(text: str, spans: Iterable[Span], mask: str) -> str:
    """Replace every merged span by one `mask`."""
    pieces, end = [], 0
    for low, high in merged(spans):
        pieces += [text[end:low], mask]
        end = high
    return "".join([*pieces, text[end:]])
