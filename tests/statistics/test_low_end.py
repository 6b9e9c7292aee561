"""The low end of a ROC: every order of few candidates, closed forms, ties, level and power."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from audit.statistics import low_end, rank_test
from tests.simulations import repeats


def stream(seed=0):
    return np.random.default_rng(seed)


def before(order, passing):
    """Counts members (True) before control number passing + 1 of one order, one by one."""
    members = controls = 0
    for is_member in order:
        controls += not is_member
        if controls > passing:
            break
        members += is_member
    return members


@pytest.mark.parametrize("members", range(6))
@pytest.mark.parametrize("controls", range(1, 5))
def test_it_counts_every_order_of_members_and_controls(members, controls):
    size = members + controls
    orders = [
        [place in chosen for place in range(size)]
        for chosen in itertools.combinations(range(size), members)
    ]
    for passing in range(controls):
        counts = [before(order, passing) for order in orders]
        for above in range(members + 1):
            share = np.mean([count >= above for count in counts])
            found = low_end.p_value(above, members, controls, passing)
            assert found == pytest.approx(share, rel=1e-12), (above, passing)
        assert low_end.smallest(members, controls, passing) == pytest.approx(
            np.mean([count == members for count in counts])
        )


@pytest.mark.parametrize("passing", [0, 1, 2])
def test_members_are_counted_in_the_order_of_their_scores(passing):
    """All orders of three members and three controls, as scores."""
    for chosen in itertools.combinations(range(6), 3):
        order = [place in chosen for place in range(6)]
        scores = -np.arange(6.0)
        found = low_end.above(scores[order], scores[np.invert(order)], passing, stream())
        assert found == before(order, passing)


@pytest.mark.parametrize(("above", "members", "controls"), [(1, 3, 7), (4, 10, 10), (25, 512, 512)])
def test_above_all_controls_is_a_product(above, members, controls):
    """The first `above` places all go to members: n(n−1)…/((n+c)(n+c−1)…)."""
    size = members + controls
    expected = math.prod((members - i) / (size - i) for i in range(above))
    assert low_end.p_value(above, members, controls) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("members", "controls", "passing"), [(5, 200, 2), (60, 60, 5), (3, 4, 3)])
def test_all_members_above_is_the_smallest_p_value(members, controls, passing):
    """No member is among the last c − passing places: C(n + passing, n) of C(n + c, n) orders."""
    expected = math.comb(members + passing, members) / math.comb(members + controls, members)
    assert low_end.smallest(members, controls, passing) == pytest.approx(expected, rel=1e-9)
    assert low_end.p_value(members, members, controls, passing) == pytest.approx(expected, rel=1e-9)


def test_more_members_above_are_less_probable_and_none_says_nothing():
    for passing in (0, 1, 9):
        found = [low_end.p_value(above, 30, 40, passing) for above in range(31)]
        assert found[0] == 1.0
        assert all(late < early for early, late in itertools.pairwise(found))


def test_it_is_never_certain():
    assert low_end.p_value(3000, 3000, 3000) == low_end.smallest(3000, 3000) == 1e-300
    assert low_end.p_value(1, 10**6, 10**6) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("fpr", "controls", "expected"),
    [
        (0.01, 99, 0),
        (0.01, 100, 1),
        (0.01, 199, 1),
        (0.001, 1000, 1),
        (0.001, 999, 0),
        (0.29, 100, 29),  # 0.29 × 100 is 28.999… in floating point
    ],
)
def test_so_many_controls_may_pass(fpr, controls, expected):
    assert low_end.passing_at(fpr, controls) == expected


# ties


def test_ties_are_broken_by_lot_and_evenly():
    """Two members and two controls alike: none, one or two first in 3, 2 and 1 of six orders."""
    draw, counts = stream(), np.zeros(3)
    for _ in range(6000):
        counts[low_end.above([1.0, 1.0], [1.0, 1.0], 0, draw)] += 1
    expected = np.array([3, 2, 1]) / 6 * 6000
    assert (np.abs(counts - expected) < 4 * np.sqrt(expected)).all()


def test_a_tie_elsewhere_changes_nothing():
    for seed in range(20):
        assert low_end.above([9.0, 8.0, 1.0, 1.0], [5.0, 1.0], 0, stream(seed)) == 2


def test_infinities_have_an_order():
    inf = math.inf
    assert low_end.above([inf, 0.0, -inf], [1.0, -inf], 0, stream()) == 1
    assert low_end.above([inf, 0.0], [-inf, -inf], 0, stream()) == 2
    assert {low_end.above([inf], [inf], 0, stream(seed)) for seed in range(20)} == {0, 1}


# level and power


@repeats(500, 4000)
@pytest.mark.parametrize("levels", [2, 5, 10**9], ids=["two levels", "five levels", "no ties"])
@pytest.mark.parametrize(
    ("members", "controls", "passing"), [(60, 60, 0), (20, 300, 3), (300, 20, 0)]
)
def test_the_level_holds(members, controls, passing, levels, runs):
    """Scores that know nothing, tied or not, and members that outnumber controls or the reverse."""
    draw, alarms = stream(members + passing), 0
    for _ in range(runs):
        scores = np.floor(levels * draw.beta(0.3, 3.0, size=members + controls))
        above = low_end.above(scores[:members], scores[members:], passing, draw)
        alarms += low_end.p_value(above, members, controls, passing) <= 0.05
    every = [low_end.p_value(a, members, controls, passing) for a in range(members + 1)]
    exact = max(p for p in every if p <= 0.05)
    assert binom.ppf(0.0005, runs, exact) <= alarms <= binom.ppf(0.9995, runs, exact)


@pytest.mark.parametrize("seed", range(5))
def test_a_minority_that_leaks_completely_is_found_where_the_area_sees_nothing(seed):
    """25 of 512 members stand above everybody, and all others are alike."""
    draw = stream(seed)
    members, controls = draw.normal(size=512), draw.normal(size=512)
    members[:25] += 100.0
    above = low_end.above(members, controls, 0, draw)
    assert 25 <= above < 40
    assert low_end.p_value(above, 512, 512) < 1e-7
    assert rank_test.p_value(members, controls, draw, two_sided=True) > 1e-3


@repeats(100, 2000)
def test_of_a_few_that_leak_with_certainty_this_test_sees_more_than_the_area(runs):
    """25 of 512: always found here, of 18 tests; by the AUC, were it alone, in 26 % of the runs."""
    draw, found = stream(7), np.zeros(2)
    for _ in range(runs):
        members, controls = draw.normal(size=512), draw.normal(size=512)
        members[:25] += 100.0
        above = low_end.above(members, controls, 0, draw)
        found[0] += low_end.p_value(above, 512, 512) < 0.05 / 18
        p = rank_test.p_value(members, controls, draw, resamples=199, two_sided=True)
        found[1] += p < 0.05
    assert found[0] == runs
    assert 0.15 * runs < found[1] < 0.4 * runs


# errors


@pytest.mark.parametrize(
    ("above", "members", "controls", "passing"),
    [(-1, 3, 3, 0), (4, 3, 3, 0), (1, 3, 3, 3), (1, 3, 3, -1), (0, 0, 0, 0)],
)
def test_impossible_counts_are_refused(above, members, controls, passing):
    with pytest.raises(ValueError, match="is no such count"):
        low_end.p_value(above, members, controls, passing)


def test_bad_scores_are_refused():
    for members, controls in (([math.nan], [1.0]), ([1.0], [math.nan])):
        with pytest.raises(ValueError, match="NaN"):
            low_end.above(members, controls, 0, stream())
    for passing in (-1, 2):
        with pytest.raises(ValueError, match="no control number"):
            low_end.above([1.0], [1.0, 2.0], passing, stream())
    with pytest.raises(ValueError, match="no control number"):
        low_end.above([1.0], [], 0, stream())
