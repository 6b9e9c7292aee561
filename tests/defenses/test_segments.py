"""Groups of queries: each query once, in order, and no group above any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from defenses.ensembles.segments import Sizes, grouped, unanswered

TEXTS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=8)
SOME = st.integers(1, 30)


@given(TEXTS, SOME, SOME, SOME)
def test_groups_hold_every_query_in_order_and_no_more_than_fits(
    texts: list[tuple[int, int]], queries: int, longest: int, tokens: int
) -> None:
    starts, stops = [start for start, _ in texts], [start + n for start, n in texts]
    groups = list(grouped(starts, stops, Sizes(queries, longest, tokens)))
    asked = [(i, place) for group in groups for i, a, b in group for place in range(a, b)]
    pairs = enumerate(zip(starts, stops, strict=True))
    assert asked == [(i, place) for i, pair in pairs for place in range(*pair)]
    for group, following in zip(groups, [*groups, []][1:], strict=True):
        sizes = [_sizes(some) for some in (group, [*group, *following[:1]])]
        fits = [q <= queries and p <= longest and t <= tokens for q, p, t in sizes]
        assert fits[0] or (len(group) == 1 and sizes[0][1] <= longest)
        assert not following or not fits[1]


def _sizes(group: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    """Queries; queries with padding; tokens with padding."""
    first, last = min(a for _, a, _ in group), max(b for _, _, b in group)
    return sum(b - a for _, a, b in group), len(group) * (last - first), len(group) * last


@given(TEXTS, st.integers(0, 80))
def test_queries_after_the_answered_are_left(texts: list[tuple[int, int]], answered: int) -> None:
    whole = [[i] * (start + n) for i, (start, n) in enumerate(texts)]
    starts = [start for start, _ in texts]
    asked = [(i, p) for i, start in enumerate(starts) for p in range(start, len(whole[i]))]
    rest, begins = unanswered(whole, starts, answered)
    left = [(t[0], p) for t, a in zip(rest, begins, strict=True) for p in range(a, len(t))]
    assert left == asked[answered:] and all(a < len(t) for t, a in zip(rest, begins, strict=True))
