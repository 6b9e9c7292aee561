"""The rank test against exact enumeration, and its level where the normal approximation fails."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom, rankdata

from audit.statistics import rank_test
from tests.simulations import repeats


def exact(planted: list[float], twins: list[float]) -> float:
    """Every way to choose who is planted, counted."""
    ranks = rankdata([*planted, *twins])
    observed = ranks[: len(planted)].sum()
    ways = list(itertools.combinations(range(len(ranks)), len(planted)))
    return sum(ranks[list(way)].sum() >= observed - 1e-9 for way in ways) / len(ways)


@pytest.mark.parametrize(
    ("planted", "twins"),
    [([5.0, 4.0, 3.5], [1.0, 2.0, 3.0]), ([1.0, 1.0, 2.0], [1.0, 0.0, 1.0, 2.0])],
)
def test_it_agrees_with_enumeration(planted: list[float], twins: list[float]) -> None:
    found = rank_test.p_value(planted, twins, np.random.default_rng(1))
    assert found == pytest.approx(exact(planted, twins), abs=0.015)


def test_higher_scores_leak_more() -> None:
    high, low = np.arange(20.0) + 100, np.arange(20.0)
    assert rank_test.p_value(high, low, np.random.default_rng(0)) == pytest.approx(1e-4)
    assert rank_test.p_value(low, high, np.random.default_rng(0)) == 1.0


@pytest.mark.parametrize(("planted", "twins"), [(1, 20), (3, 40), (5, 100)])
def test_ties_and_lopsided_sizes_keep_the_level(planted: int, twins: int) -> None:
    generator = np.random.default_rng(planted)
    alarms, runs = 0, 600
    for _ in range(runs):
        scores = (generator.random(planted + twins) < 0.1).astype(float)
        p = rank_test.p_value(scores[:planted], scores[planted:], generator, resamples=199)
        alarms += p <= 0.05
    assert alarms <= binom.ppf(0.999, runs, 0.05)


def test_what_so_few_could_show() -> None:
    assert rank_test.smallest(1, 1) == 0.5
    assert rank_test.smallest(3, 3) == pytest.approx(1 / 20)
    assert rank_test.smallest(60, 60) == pytest.approx(1e-4)
    assert rank_test.smallest(1, 1, two_sided=True) == 1.0
    assert rank_test.smallest(3, 3, two_sided=True) == pytest.approx(1 / 10)
    assert rank_test.smallest(60, 60, two_sided=True) == pytest.approx(2e-4)


# --- two-sided


@pytest.mark.parametrize(
    ("planted", "twins"),
    [
        ([5.0, 4.0, 3.5], [1.0, 2.0, 3.0]),
        ([0.0, 1.0, 1.0], [1.0, 2.0, 1.0, 2.0]),
        ([0.0, 5.0], [1.0, 2.0, 3.0]),
    ],
)
def test_two_sided_it_is_twice_the_smaller_tail(planted: list[float], twins: list[float]) -> None:
    low = exact([-x for x in planted], [-x for x in twins])
    expected = min(1.0, 2 * min(exact(planted, twins), low))
    found = rank_test.p_value(planted, twins, np.random.default_rng(1), two_sided=True)
    assert found == pytest.approx(expected, abs=0.02)
    turned = rank_test.p_value(twins, planted, np.random.default_rng(1), two_sided=True)
    assert turned == pytest.approx(expected, abs=0.02)


def test_secrets_below_twins_are_found_two_sided_only() -> None:
    high, low = np.arange(20.0) + 100, np.arange(20.0)
    for pair in ((high, low), (low, high)):
        found = rank_test.p_value(*pair, np.random.default_rng(0), two_sided=True)
        assert found == pytest.approx(2e-4)
    flat = rank_test.p_value([1.0] * 5, [1.0] * 9, np.random.default_rng(0), two_sided=True)
    assert flat == 1.0


@pytest.mark.parametrize(("planted", "twins"), [(1, 50), (3, 40), (20, 20), (100, 5)])
@pytest.mark.parametrize("tied", [False, True])
@repeats(300, 2000)
def test_two_sided_it_keeps_the_level(planted: int, twins: int, tied: bool, runs: int) -> None:
    generator, alarms = np.random.default_rng(planted), 0
    for _ in range(runs):
        scores = generator.random(planted + twins)
        scores = np.floor(3 * scores) if tied else scores
        p = rank_test.p_value(
            scores[:planted], scores[planted:], generator, resamples=199, two_sided=True
        )
        alarms += p <= 0.05
    assert alarms <= binom.ppf(0.999, runs, 0.05)
    assert alarms > 0.01 * runs or (planted, twins) == (1, 50) or tied


def test_permuting_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    planted, twins = np.arange(8.0) + 2, np.arange(11.0)
    whole = rank_test.p_value(planted, twins, np.random.default_rng(3))
    monkeypatch.setattr(rank_test, "_CELLS_AT_ONCE", 100)
    assert rank_test.p_value(planted, twins, np.random.default_rng(3)) == whole


def test_nothing_to_rank_is_refused() -> None:
    with pytest.raises(ValueError):
        rank_test.p_value([], [1.0], np.random.default_rng(0))
    with pytest.raises(ValueError):
        rank_test.p_value([float("nan")], [1.0], np.random.default_rng(0))
