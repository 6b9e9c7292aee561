"""The top test: exact by enumeration, its power by the figures of a simulation."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics import top_test
from audit.statistics.top_test import SHARES

EIGHTH, FIFTH, QUARTER = SHARES


def enumerated(scores: list[int], planted: int, share: Fraction) -> float:
    """P[statistic at least as large] over every choice of the planted, one by one."""
    top = top_test.places(planted, len(scores) - planted, share)
    ordered = sorted(scores, reverse=True)
    cut, left = ordered[top - 1], top - sum(s > ordered[top - 1] for s in scores)

    def statistic(chosen: tuple[int, ...]) -> Fraction:
        above = sum(scores[i] > cut for i in chosen)
        tied = sum(scores[i] == cut for i in chosen)
        return above + Fraction(left * tied, scores.count(cut))

    observed = statistic(tuple(range(planted)))
    every = [statistic(c) for c in combinations(range(len(scores)), planted)]
    return sum(s >= observed for s in every) / len(every)


@given(st.lists(st.integers(0, 4), min_size=3, max_size=10), st.data())
def test_p_value_equals_enumeration_with_ties(scores: list[int], data: st.DataObject) -> None:
    planted = data.draw(st.integers(1, len(scores) - 1))
    share = data.draw(st.sampled_from([*SHARES, Fraction(1, 2)]))
    p = top_test.p_value(scores[:planted], scores[planted:], share)
    assert p == pytest.approx(enumerated(scores, planted, share), abs=1e-9)


def test_constant_scores_have_p_value_one() -> None:
    assert top_test.p_value([2.0] * 9, [2.0] * 11, FIFTH) == 1.0


def test_smallest_p_value_is_reached_by_separation() -> None:
    p = top_test.p_value(range(100, 112), range(20), QUARTER)
    assert p == pytest.approx(top_test.smallest(12, 20, QUARTER))
    assert p == pytest.approx(495 / 10_518_300)  # C(12, 8) of C(32, 8)


@pytest.mark.parametrize(
    "planted, twins, share, power",
    [(49, 71, EIGHTH, 0.93), (60, 60, EIGHTH, 0.98), (50, 50, EIGHTH, 0.96), (60, 40, EIGHTH, 0.0)],
)
def test_power_at_a_third_given_away(
    planted: int, twins: int, share: Fraction, power: float
) -> None:
    """Figures of a simulation, at the level of 66 tests (to its two digits)."""
    assert top_test.power(planted, twins, share, 1 / 3, 0.05 / 66) == pytest.approx(power, abs=8e-3)


def test_best_share_is_the_strongest() -> None:
    assert top_test.best_share(60, 60, 0.05 / 66) == EIGHTH
    assert top_test.best_share(60, 40, 0.05 / 66) == FIFTH  # the eighth cannot reach this level


@pytest.mark.parametrize("planted, twins", [([], [1.0]), ([1.0], []), ([float("nan")], [1.0])])
def test_side_without_scores_is_an_error(planted: list[float], twins: list[float]) -> None:
    with pytest.raises(ValueError):
        top_test.p_value(planted, twins, EIGHTH)
