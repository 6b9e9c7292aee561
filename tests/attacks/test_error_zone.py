"""EZ-MIA by hand, its degenerate cases, and its order on small exact examples."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.scores.error_zone import ez

CLOSE = 2e-9  # the tie-breaker is below 1e-9 on either side
Token = tuple[int, bool]  # delta, and whether it is the release's most likely one
texts = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=6)


def score(*tokens: tuple[float, bool]) -> float:
    delta, top1 = zip(*tokens, strict=True)
    return ez(np.array(delta, dtype=float), np.array(top1))


def exact(tokens: list[Token]) -> tuple[Fraction, Fraction]:
    """The score, and the mean that breaks ties."""
    mean = Fraction(sum(delta for delta, _ in tokens), len(tokens))
    errors = [delta for delta, right in tokens if not right]
    if not errors:
        return Fraction(2), mean
    gained = sum(max(delta, 0) for delta in errors)
    lost = sum(max(-delta, 0) for delta in errors)
    return Fraction(gained, gained + lost) if gained + lost else Fraction(1, 2), mean


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([(3, False), (-1, False), (0, False)], 3 / 4),
        ([(1, False), (2, False), (-9, False), (7, True), (-7, True)], 3 / 12),
        ([(0.25, False), (4, True)], 1.0),
        ([(-0.25, False), (4, True)], 0.0),
        ([(5, True), (-8, True)], 2.0),  # no error: the text is known by heart
        ([(-8, True)], 2.0),
        ([(0, False), (0, False), (3, True)], 0.5),  # errors that have not moved
        ([(0, False)], 0.5),
    ],
)
def test_the_share_of_what_errors_gain(tokens: list[Token], expected: float) -> None:
    assert score(*tokens) == pytest.approx(expected, abs=CLOSE)


@pytest.mark.parametrize("errors", [[], [(0, False)], [(2, False)], [(-2, False)]])
def test_ties_are_broken_by_the_mean_over_all_tokens(errors: list[Token]) -> None:
    low, middle, high = (score(*errors, (delta, True)) for delta in (-3, -1, 6))
    assert low < middle < high
    assert score(*errors, (-3, True)) == low


def test_the_mean_breaks_ties_only() -> None:
    """However far apart the means are."""
    behind = score((1, False), (-1, False), (1e6, True))
    ahead = score((1.00001, False), (-1, False), (-1e6, True))
    assert behind < ahead < behind + 1e-5
    assert score((1, False), (1e9, True)) < score((0, True), (-1e9, True))


@pytest.mark.parametrize("right", [False, True])
def test_what_was_not_read_has_no_score(right: bool) -> None:
    assert np.isnan(score((float("nan"), right), (float("nan"), right)))


@given(texts, texts)
def test_the_order_is_that_of_the_score_and_then_of_the_mean(
    one: list[Token], other: list[Token]
) -> None:
    assert (score(*one) > score(*other)) == (exact(one) > exact(other))
    assert score(*one) == pytest.approx(float(exact(one)[0]), abs=CLOSE)


@given(texts, st.sampled_from([0.125, 3.0]), st.randoms())
def test_neither_the_scale_nor_the_order_of_tokens_matters(
    tokens: list[Token], scale: float, random: np.random.Generator
) -> None:
    scaled = [(scale * delta, right) for delta, right in tokens]
    random.shuffle(scaled)
    assert score(*scaled) == pytest.approx(score(*tokens), abs=CLOSE)


@given(texts)
def test_a_release_and_its_base_that_change_places_have_shares_that_add_up_to_one(
    tokens: list[Token],
) -> None:
    turned = score(*((-delta, right) for delta, right in tokens))
    known = all(right for _, right in tokens)
    assert score(*tokens) + turned == pytest.approx(4.0 if known else 1.0, abs=CLOSE)


@given(texts, st.integers(0, 5), st.integers(1, 9))
def test_a_token_that_becomes_more_likely_never_lowers_the_score(
    tokens: list[Token], place: int, more: int
) -> None:
    raised = list(tokens)
    delta, right = raised[place % len(raised)]
    raised[place % len(raised)] = (delta + more, right)
    if not any(right_ is False and delta_ for delta_, right_ in tokens):
        return  # errors at rest count as 1/2, whichever way they start to move
    assert score(*raised) >= score(*tokens)
