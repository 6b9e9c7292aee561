"""Spans against what is said of every single character."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.predictor import token_mask
from audit.core.spans import disjoint, merged, redacted

spans_ = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 5)).map(lambda s: (s[0], s[0] + s[1])), max_size=6
)


def characters(spans):
    return {place for low, high in spans for place in range(low, high)}


@given(spans_)
def test_merged_spans_are_the_maximal_runs_of_private_characters(spans):
    private = characters(spans)
    starts = [place for place in sorted(private) if place - 1 not in private]
    ends = [place + 1 for place in sorted(private) if place + 1 not in private]
    assert merged(spans) == list(zip(starts, ends, strict=True))


@given(spans_)
def test_disjoint_spans_join_overlaps_only(spans):
    found = disjoint(spans)
    assert characters(found) == characters(spans)
    borders = {place for span in found for place in span}
    assert borders <= {place for span in spans for place in span}
    assert all(a[1] <= b[0] for a, b in pairwise(found))
    for low, high in found:  # nothing could be split further: every inner border is inside a span
        assert all(any(a < p < b for a, b in spans) for p in range(low + 1, high))


def test_touching_spans_stay_apart_until_merged():
    assert disjoint([(3, 4), (2, 3), (7, 9), (8, 10)]) == [(2, 3), (3, 4), (7, 10)]
    assert merged([(3, 4), (2, 3), (7, 9)]) == [(2, 4), (7, 9)]
    assert merged([]) == disjoint([]) == []


def test_a_value_is_masked_once():
    text = "call 555 or 66, Ann"
    spans = [(5, 6), (6, 7), (7, 8), (12, 14), (16, 19)]
    assert redacted(text, spans, "<x>") == "call <x> or <x>, <x>"
    assert redacted(text, [], "<x>") == text
    assert redacted("12", [(0, 2)], "") == ""


@given(st.text(max_size=20), spans_, st.sampled_from(["", "_", "<mask>"]))
def test_redaction_keeps_every_other_character(text, spans, mask):
    spans = [(low, high) for low, high in spans if high <= len(text)]
    private = characters(spans)
    expected = "".join(
        (mask if place - 1 not in private else "") if place in private else character
        for place, character in enumerate(text)
    )
    assert redacted(text, spans, mask) == expected


@given(st.lists(st.integers(0, 3), max_size=14), spans_)
def test_a_token_is_private_with_any_of_its_characters(widths, spans):
    """A token of no width goes with the character before or after its place."""
    private = characters(spans)
    ends = list(accumulate(widths))
    expected = []
    for end, width in zip(ends, widths, strict=True):
        own = range(end - width, end) if width else (end - 1, end)
        expected.append(any(place in private for place in own))
    assert token_mask(ends, spans) == expected


@pytest.mark.parametrize("ends", [[3, 4, 4, 5], [3, 3, 4, 5]])
def test_bytes_of_one_private_character_are_all_private(ends):
    """The second and third token share the one character of the span, however it is counted."""
    assert token_mask(ends, [(3, 4)])[1:3] == [True, True]
    assert token_mask(ends, [(3, 4)])[0] is False


def test_ends_that_decrease_are_refused():
    with pytest.raises(ValueError, match="decrease from 3 to 2"):
        token_mask([3, 2], [])
