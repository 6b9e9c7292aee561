"""Scores of one pass: Min-K%, EZ-MIA and the votes of windows, against their definitions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attacks.scores.membership_scores import ez, min_k, min_k_plus_plus, wbc
from audit.core.language_model import moments_of

WINDOWS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
CLOSE = 2e-9  # the tie-breaker is below 1e-9 on either side
Token = tuple[int, bool]  # delta, and whether it is the release's most likely one
TEXTS = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=60)


# Min-K%


def test_min_k_averages_the_lowest_share_and_at_least_one() -> None:
    values = np.array([-1.0, -5.0, -2.0, -4.0, -3.0])
    for k, expected in ((0.01, -5.0), (0.2, -5.0), (0.6, -4.0), (1.0, -3.0)):
        assert min_k(values, k) == expected
    assert min_k(np.array([-1.0, -np.inf]), 0.5) == -np.inf


def test_each_token_is_compared_with_its_own_distribution() -> None:
    log_probs = np.array([-1.0, -9.0, -2.0, -4.0])
    moments = np.array([[-2.0, -9.0, -5.0, -3.0], [1.0, 3.0, 2.0, 0.5]])
    for k, expected in ((0.25, -2.0), (0.5, -1.0), (1.0, 0.125)):  # of 1, 0, 1.5, -2
        assert min_k_plus_plus(log_probs, moments, k) == expected


def test_deviations_that_are_rounding_errors_do_not_blow_up() -> None:
    flat = np.array([[-2.0], [0.0]])
    assert min_k_plus_plus(np.array([-2.0]), flat, 1.0) == 0.0
    assert abs(min_k_plus_plus(np.array([-2.0 - 1e-7]), flat, 1.0)) < 0.1


def test_moments_are_right_to_a_hundred_thousandth() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(200, 1024, generator=generator, dtype=torch.float64)
    scales = torch.logspace(-4, 2, 200, dtype=torch.float64)[:, None]
    logs = torch.log_softmax(noise * scales, dim=1)  # from flat to nearly certain
    logs = torch.cat([logs, torch.log(torch.eye(3, 1024, dtype=torch.float64))])
    pmf, finite = logs.exp(), logs.clamp(min=-1e4)
    mean = (pmf * finite).sum(dim=1)
    deviation = (pmf * (finite - mean[:, None]) ** 2).sum(dim=1).sqrt()
    torch.testing.assert_close(moments_of(logs), torch.stack([mean, deviation]), atol=1e-5, rtol=0)


# the error zone


def error_zone(*tokens: tuple[float, bool]) -> float:
    delta, top1 = zip(*tokens, strict=True)
    return ez(np.array(delta, dtype=float), np.array(top1))


def exact(tokens: list[Token]) -> tuple[Fraction, Fraction]:
    """The score, and the mean that breaks ties."""
    mean = Fraction(sum(delta for delta, _ in tokens), len(tokens))
    errors = [delta for delta, right in tokens if not right]
    if not errors:
        return Fraction(2), mean
    gained, moved = sum(max(delta, 0) for delta in errors), sum(map(abs, errors))
    return Fraction(gained, moved) if moved else Fraction(1, 2), mean


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([(3, False), (-1, False), (0, False)], 3 / 4),
        ([(1, False), (2, False), (-9, False), (7, True), (-7, True)], 3 / 12),
        ([(-0.25, False), (4, True)], 0.0),
        ([(5, True), (-8, True)], 2.0),  # no error: the text is known by heart
        ([(0, False), (0, False), (3, True)], 0.5),  # errors that have not moved
    ],
)
def test_the_share_of_what_errors_gain(tokens: list[Token], expected: float) -> None:
    assert error_zone(*tokens) == pytest.approx(expected, abs=CLOSE)


@given(TEXTS, TEXTS)
def test_the_order_is_that_of_the_share_and_then_of_the_mean(
    one: list[Token], other: list[Token]
) -> None:
    assert (error_zone(*one) > error_zone(*other)) == (exact(one) > exact(other))
    assert error_zone(*one) == pytest.approx(float(exact(one)[0]), abs=CLOSE)


@pytest.mark.parametrize("errors", [[], [(0, False)], [(2, False)], [(-2, False)]])
def test_the_mean_over_all_tokens_breaks_ties_and_nothing_else(errors: list[Token]) -> None:
    low, middle, high = (error_zone(*errors, (delta, True)) for delta in (-3, -1, 6))
    assert low < middle < high
    behind = error_zone((1, False), (-1, False), (1e6, True))
    assert behind < error_zone((1.00001, False), (-1, False), (-1e6, True)) < behind + 1e-5
    assert error_zone((1, False), (1e9, True)) < error_zone((0, True), (-1e9, True))


# windows


def counted(delta: list[int]) -> float:
    """Votes of each window of each of the authors' ten sizes."""
    shares = []
    for size in WINDOWS:
        length = min(size, len(delta))
        sums = [sum(delta[i : i + length]) for i in range(len(delta) - length + 1)]
        shares.append(sum(1.0 if s > 0 else 0.5 if s == 0 else 0.0 for s in sums) / len(sums))
    return sum(shares) / 10


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ((1, -2, 3), (1 / 2 + 9 * 1) / 10),  # pairs: −1 and 1; all else is the whole text: 2
        ((3, -1, -1, -1), (1 / 3 + 1 / 2 + 8 / 2) / 10),  # 2, −2, −2; 1, −3; 0
        ((0.1, 0.2, 0, 0), (2.5 / 3 + 9 * 1) / 10),  # the last pair is exactly 0
        ((-7,), 0.0),
        ((0,) * 50, 0.5),
        ((1e-300,) * 50, 1.0),
        # a few tokens cannot outvote all others: of windows of size w, one of 101 − w has the last
        ((1.0,) * 99 + (-1000.0,), sum(1 - 1 / (101 - w) for w in WINDOWS) / 10),
    ],
)
def test_the_share_of_windows_above_zero(delta: tuple[float, ...], expected: float) -> None:
    assert wbc(np.array(delta, dtype=float)) == pytest.approx(expected, abs=1e-12)


@given(TEXTS)
def test_every_window_is_counted_once(tokens: list[Token]) -> None:
    delta = [one for one, _ in tokens]
    assert wbc(np.array(delta, dtype=float)) == pytest.approx(counted(delta), abs=1e-12)


@pytest.mark.parametrize("right", [False, True])
def test_what_was_not_read_has_no_score(right: bool) -> None:
    unread = np.full(3, np.nan)
    assert np.isnan(ez(unread, np.full(3, right))) and np.isnan(wbc(unread))
