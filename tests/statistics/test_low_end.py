"""The low end of a ROC: every order of few candidates, closed forms, ties, level and power."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, mannwhitneyu

from audit.statistics import low_end
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


def test_p_value_counts_every_order():
    for members, controls in itertools.product(range(6), range(1, 5)):
        size = members + controls
        orders = [
            [place in chosen for place in range(size)]
            for chosen in itertools.combinations(range(size), members)
        ]
        for passing in range(controls):
            counts = np.array([before(order, passing) for order in orders])
            for above in range(members + 1):
                found = low_end.p_value(above, members, controls, passing)
                share = np.mean(counts >= above)
                assert found == pytest.approx(share, rel=1e-12), (members, controls, above, passing)
            smallest = low_end.smallest(members, controls, passing)
            assert smallest == pytest.approx(np.mean(counts == members))


def test_members_are_counted_in_order_of_scores():
    """All orders of three members and three controls, as scores."""
    for chosen, passing in itertools.product(itertools.combinations(range(6), 3), range(3)):
        order = [place in chosen for place in range(6)]
        scores = -np.arange(6.0)
        found = low_end.above(scores[order], scores[np.invert(order)], passing, stream())
        assert found == before(order, passing)


def test_large_sides_have_closed_forms():
    """The first `above` places all go to members: n(n−1)…/((n+c)(n+c−1)…); all members above:
    C(n + passing, n) of C(n + c, n) orders. Floored at 1e-300."""
    expected = math.prod((512 - i) / (1024 - i) for i in range(25))
    assert low_end.p_value(25, 512, 512) == pytest.approx(expected, rel=1e-9)
    for members, controls, passing in ((5, 200, 2), (60, 60, 5)):
        orders = math.comb(members + controls, members)
        expected = math.comb(members + passing, members) / orders
        smallest = low_end.smallest(members, controls, passing)
        assert smallest == pytest.approx(expected, rel=1e-9)
    assert low_end.p_value(3000, 3000, 3000) == low_end.smallest(3000, 3000) == 1e-300
    assert low_end.p_value(1, 10**6, 10**6) == pytest.approx(0.5)


def test_controls_that_may_pass_are_whole():
    expected = {
        (0.01, 99): 0, (0.01, 100): 1, (0.01, 199): 1, (0.001, 1000): 1, (0.001, 999): 0,
        (0.29, 100): 29,  # 0.29 × 100 is 28.999… in floating point
    }  # fmt: skip
    for (fpr, controls), passing in expected.items():
        assert low_end.passing_at(fpr, controls) == passing


# ties


def test_ties_are_broken_evenly_by_lot():
    """Two members and two controls alike: none, one or two first in 3, 2 and 1 of six orders."""
    draw, counts = stream(), np.zeros(3)
    for _ in range(6000):
        counts[low_end.above([1.0, 1.0], [1.0, 1.0], 0, draw)] += 1
    expected = np.array([3, 2, 1]) / 6 * 6000
    assert (np.abs(counts - expected) < 4 * np.sqrt(expected)).all()


def test_ties_elsewhere_change_nothing():
    for seed in range(20):
        assert low_end.above([9.0, 8.0, 1.0, 1.0], [5.0, 1.0], 0, stream(seed)) == 2


def test_infinities_have_an_order():
    inf = math.inf
    assert low_end.above([inf, 0.0, -inf], [1.0, -inf], 0, stream()) == 1
    assert low_end.above([inf, 0.0], [-inf, -inf], 0, stream()) == 2
    assert {low_end.above([inf], [inf], 0, stream(seed)) for seed in range(20)} == {0, 1}


# level and power


@repeats(200, 4000)
def test_alarms_are_as_frequent_as_the_level(runs):
    """Scores that know nothing, tied or not, and members that outnumber controls or the reverse."""
    sizes = ((60, 60, 0), (20, 300, 3), (300, 20, 0))
    for levels, (members, controls, passing) in itertools.product((2, 5, 10**9), sizes):
        draw, alarms = stream(members + passing), 0
        every = [low_end.p_value(a, members, controls, passing) for a in range(members + 1)]
        for _ in range(runs):
            scores = np.floor(levels * draw.beta(0.3, 3.0, size=members + controls))
            above = low_end.above(scores[:members], scores[members:], passing, draw)
            alarms += every[above] <= 0.05
        exact = max(p for p in every if p <= 0.05)
        assert binom.ppf(0.0003, runs, exact) <= alarms <= binom.ppf(0.9997, runs, exact)


@repeats(20, 2000)
def test_a_leaking_minority_is_always_found(runs):
    """25 of 512: always found here, of 18 tests; by the AUC, were it alone, in 26 % of the runs."""
    draw, found = stream(7), np.zeros(2)
    for _ in range(runs):
        members, controls = draw.normal(size=512), draw.normal(size=512)
        members[:25] += 100.0
        above = low_end.above(members, controls, 0, draw)
        found[0] += 25 <= above < 40 and low_end.p_value(above, 512, 512) < 0.05 / 18
        found[1] += mannwhitneyu(members, controls).pvalue < 0.05
    assert found[0] == runs
    assert runs < 2000 or 0.15 * runs < found[1] < 0.4 * runs
