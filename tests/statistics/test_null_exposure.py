"""Many ranks against uniform ones: exact for small spaces, the level, and what it finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import binom, chi2

from audit.statistics import null_exposure


@pytest.mark.parametrize(("space", "n"), [(2, 1), (3, 5), (10, 3), (100, 2)])
def test_over_all_ranks_it_is_conservative_and_nearly_exact(space, n):
    rows = list(itertools.combinations_with_replacement(range(1, space + 1), n))
    ways = np.array([multinomial(row) for row in rows]) / space**n
    p = np.array([null_exposure.p_value(space, row) for row in rows])
    assert ways.sum() == pytest.approx(1)
    for level in np.unique(p):
        assert ways[p <= level].sum() <= level + 1e-12
    if space == 100:
        assert ways[p <= 0.05].sum() > 0.04


def multinomial(row: tuple[int, ...]) -> int:
    ways = 1
    for i, _ in enumerate(row, 1):
        ways *= i
    for count in np.unique(row, return_counts=True)[1]:
        for i in range(2, int(count) + 1):
            ways //= i
    return ways


def test_it_is_fishers_combination():
    ranks, space = np.array([3.0, 70.0, 500.5]), 1e5
    statistic = -2 * np.log(ranks / space).sum()
    assert null_exposure.p_value(space, ranks) == pytest.approx(chi2.sf(statistic, 6))
    assert null_exposure.p_value(space, [7]) == pytest.approx(7 / space)
    assert null_exposure.p_value(space, [space] * 5) == 1.0
    assert null_exposure.smallest(100, 1) == pytest.approx(0.01)
    assert null_exposure.smallest(100, 3) == null_exposure.p_value(100, [1, 1, 1])


def test_secrets_never_seen_are_rarely_called_known():
    """Scores with ties, ranks against the secret, and certified upper ends of half of them."""
    draw, runs, alarms = np.random.default_rng(0), 3000, 0
    for _ in range(runs):
        scores = draw.integers(0, 30, size=(8, 50))
        ranks = (scores >= scores[:, :1]).sum(axis=1)
        ranks[:4] = np.minimum(50, ranks[:4] + draw.integers(0, 3, size=4))
        alarms += null_exposure.p_value(50, ranks) <= 0.05
    assert alarms <= binom.ppf(0.999, runs, 0.05)


def test_secrets_a_little_known_are_found_together():
    draw = np.random.default_rng(0)
    ranks = np.ceil(1000 * draw.random((300, 60)) ** 1.5)
    found = [null_exposure.p_value(1000, row) <= 0.05 for row in ranks]
    assert np.mean(found) > 0.9


@pytest.mark.parametrize(
    ("space", "ranks"), [(10, []), (10, [0]), (10, [11]), (10, [[1]]), (10, [float("nan")])]
)
def test_bad_ranks_are_refused(space, ranks):
    with pytest.raises(ValueError):
        null_exposure.p_value(space, ranks)
