"""The rank test against exact enumeration, and its level where the normal approximation fails."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import rankdata

from audit.statistics import rank_test
from tests.simulations import most, repeats

HIGH, LOW = np.arange(20.0) + 100, np.arange(20.0)


def stream(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def exact(planted: list[float], twins: list[float]) -> float:
    """Every way to choose who is planted, counted."""
    ranks = rankdata([*planted, *twins])
    observed = ranks[: len(planted)].sum()
    ways = list(itertools.combinations(range(len(ranks)), len(planted)))
    return sum(ranks[list(way)].sum() >= observed - 1e-9 for way in ways) / len(ways)


@pytest.mark.parametrize(
    ("planted", "twins"),
    [
        ([5.0, 4.0, 3.5], [1.0, 2.0, 3.0]),
        ([1.0, 1.0, 2.0], [1.0, 0.0, 1.0, 2.0]),
        ([0.0, 1.0, 1.0], [1.0, 2.0, 1.0, 2.0]),
        ([0.0, 5.0], [1.0, 2.0, 3.0]),
    ],
)
def test_p_values_are_those_of_enumeration(planted: list[float], twins: list[float]) -> None:
    high, low = exact(planted, twins), exact([-x for x in planted], [-x for x in twins])
    assert rank_test.p_value(planted, twins, stream(1)) == pytest.approx(high, abs=0.015)
    for pair in ((planted, twins), (twins, planted)):
        found = rank_test.p_value(*pair, stream(1), two_sided=True)
        assert found == pytest.approx(min(1.0, 2 * min(high, low)), abs=0.02)


def test_higher_scores_leak_more() -> None:
    assert rank_test.p_value(HIGH, LOW, stream()) == pytest.approx(1e-4)
    assert rank_test.p_value(LOW, HIGH, stream()) == 1.0
    for pair in ((HIGH, LOW), (LOW, HIGH)):
        assert rank_test.p_value(*pair, stream(), two_sided=True) == pytest.approx(2e-4)
    assert rank_test.p_value([1.0] * 5, [1.0] * 9, stream(), two_sided=True) == 1.0


def test_smallest_p_value_follows_from_the_sizes() -> None:
    for sizes, one_sided in (((1, 1), 0.5), ((3, 3), 1 / 20), ((60, 60), 1e-4)):
        assert rank_test.smallest(*sizes) == pytest.approx(one_sided)
        assert rank_test.smallest(*sizes, two_sided=True) == pytest.approx(2 * one_sided)


@repeats(60, 2000)
@pytest.mark.parametrize("two_sided", [False, True])
def test_ties_and_lopsided_sizes_keep_the_level(two_sided: bool, runs: int) -> None:
    sizes = ((1, 50), (3, 40), (20, 20), (100, 5))
    for (planted, twins), levels in itertools.product(sizes, (2, 3, 10**9)):
        draw, alarms = stream(planted), 0
        for _ in range(runs):
            scores = np.floor(levels * draw.random(planted + twins) ** 3)
            sides = scores[:planted], scores[planted:]
            p = rank_test.p_value(*sides, draw, resamples=99, two_sided=two_sided)
            alarms += p <= 0.05
        assert alarms / runs <= most(runs), (planted, twins, levels)
        assert alarms > 0.01 * runs or planted == 1 or levels < 10**9


def test_permuting_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    planted, twins = np.arange(8.0) + 2, np.arange(11.0)
    whole = rank_test.p_value(planted, twins, stream(3))
    monkeypatch.setattr(rank_test, "_CELLS_AT_ONCE", 100)
    assert rank_test.p_value(planted, twins, stream(3)) == whole
