"""Monte-Carlo p-values among other values: uniform ranks, early stops, two values together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy

from audit.statistics import among_others


def test_p_values_of_all_ranks_are_uniform() -> None:
    scores = list(range(20))
    p = [among_others.p_value(s, [o for o in scores if o != s]) for s in scores]
    assert sorted(p) == pytest.approx([i / 20 for i in range(1, 21)])


def test_ties_count_against_the_value() -> None:
    assert among_others.p_value(1.0, [1.0, 1.0, 0.0]) == 3 / 4


@pytest.mark.parametrize("score", [math.nan, -math.inf])
def test_score_that_says_nothing_has_p_value_one(score: float) -> None:
    assert among_others.p_value(score, [-math.inf] * 99) == 1.0


def test_others_without_a_score_count_as_high() -> None:
    assert among_others.p_value(5.0, [math.nan, 0.0, 0.0]) == 2 / 4


def test_stopped_p_value_keeps_its_level() -> None:
    """Over all ranks of the value: P[p <= level] <= level at each level that p can have."""
    limit, stream = 199, np.random.default_rng(0)
    p = []
    for _ in range(4_000):
        chance, as_high, draws = stream.random(), 0, 0
        while as_high < among_others.ENOUGH and draws < limit:
            draws += 1
            as_high += stream.random() < chance
        p.append(among_others.stopped_p_value(as_high, draws, limit))
    for level in (0.005, 0.05, 0.2, 0.5):
        share = float(np.mean(np.array(p) <= level))
        assert share <= level + 4 * math.sqrt(level / 4_000)
        assert share >= 0.8 * level - 4 * math.sqrt(level / 4_000)


def test_counting_stops_at_the_tenth_as_high() -> None:
    """By one loop over all scores; no part behind the tenth is computed."""
    stream = np.random.default_rng(1)
    for size in (1, 3, 7, 50):
        scores = stream.integers(6, size=50).astype(float)
        as_high = draws = 0
        for other in scores[1:]:
            if as_high < among_others.ENOUGH:
                as_high, draws = as_high + (other >= scores[0]), draws + 1
        asked: list[int] = []

        def part(start: int, size: int = size, scores: Any = scores, asked: Any = asked) -> Any:
            asked.append(start)
            return scores[start : start + size]

        starts = range(0, 50, size)
        assert among_others.counted(map(part, starts)) == (as_high, draws)
        assert max(asked) <= draws
    assert among_others.counted([[math.nan] + [0.0] * 30]) == (10, 10)
    assert among_others.counted([[1.0, math.nan, 0.0]]) == (1, 2)


def test_draws_that_ended_too_early_are_an_error() -> None:
    with pytest.raises(ValueError):
        among_others.stopped_p_value(3, 50, 99)


def test_both_is_fishers_combination_of_two() -> None:
    for one, other in ((0.03, 0.4), (1.0, 1.0), (1e-4, 1e-4)):
        fisher = scipy.stats.combine_pvalues([one, other]).pvalue
        assert among_others.both(one, other) == pytest.approx(fisher)
    assert among_others.both(0.0, 1.0) == 0.0
