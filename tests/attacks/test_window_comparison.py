"""The votes of windows, counted by hand and one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.scores.window_comparison import wbc

texts = st.lists(st.integers(-4, 4), min_size=1, max_size=90)


def score(*delta: float) -> float:
    return wbc(np.array(delta, dtype=float))


def counted(delta: list[int]) -> float:
    """Votes of each window of each of the authors' ten sizes."""
    shares = []
    for size in (2, 3, 4, 6, 9, 13, 18, 25, 32, 40):
        length = min(size, len(delta))
        sums = [sum(delta[i : i + length]) for i in range(len(delta) - length + 1)]
        shares.append(sum(1.0 if s > 0 else 0.5 if s == 0 else 0.0 for s in sums) / len(sums))
    return sum(shares) / 10


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ((1, -2, 3), (1 / 2 + 9 * 1) / 10),  # pairs: −1 and 1; all else is the whole text: 2
        ((-1, 2, -3), (1 / 2 + 9 * 0) / 10),
        ((1, -1, 1, -1), (1 / 2 + 1 / 2 + 8 / 2) / 10),  # pairs and the whole are 0; 1 and −1
        ((3, -1, -1, -1), (1 / 3 + 1 / 2 + 8 / 2) / 10),  # 2, −2, −2; 1, −3; 0
        ((0.1, 0.2, 0, 0), (2.5 / 3 + 9 * 1) / 10),  # the last pair is exactly 0
        ((7,), 1.0),
        ((-7,), 0.0),
        ((0,), 0.5),
        ((0,) * 50, 0.5),
        ((1e-300,) * 50, 1.0),
    ],
)
def test_the_share_of_windows_above_zero(delta: tuple[float, ...], expected: float) -> None:
    assert score(*delta) == pytest.approx(expected, abs=1e-12)


def test_a_few_tokens_cannot_outvote_all_others() -> None:
    """The mean is −9; of windows of size w, one of 101 − w holds the last token."""
    delta = [1.0] * 99 + [-1000.0]
    sizes = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
    assert np.mean(delta) < -9
    expected = np.mean([(100 - size) / (101 - size) for size in sizes])
    assert score(*delta) == pytest.approx(expected, abs=1e-12)


def test_what_was_not_read_has_no_score() -> None:
    assert np.isnan(score(float("nan"), float("nan"), float("nan")))


@given(texts)
def test_every_window_is_counted_once(delta: list[int]) -> None:
    assert score(*delta) == pytest.approx(counted(delta), abs=1e-12)


@given(texts, st.sampled_from([0.25, 8.0]))
def test_only_signs_of_sums_matter(delta: list[int], scale: float) -> None:
    found = score(*delta)
    assert score(*(scale * d for d in delta)) == found
    assert score(*reversed(delta)) == pytest.approx(found, abs=1e-12)
    assert score(*(-d for d in delta)) == pytest.approx(1 - found, abs=1e-12)


@given(texts, st.integers(0, 89), st.integers(1, 9))
def test_a_token_that_becomes_more_likely_never_lowers_the_score(
    delta: list[int], place: int, more: int
) -> None:
    raised = list(delta)
    raised[place % len(raised)] += more
    assert score(*raised) >= score(*delta) - 1e-12
