"""Many ranks against uniform ones: exact for small spaces, and what it finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from audit.statistics import null_exposure


def test_p_value_is_conservative_over_all_ranks():
    """And nearly exact for larger spaces."""
    for space, n in ((2, 1), (3, 5), (6, 3), (40, 2)):
        rows = itertools.product(range(1, space + 1), repeat=n)
        p = np.array([null_exposure.p_value(space, row) for row in rows])
        assert all((p <= level).mean() <= level + 1e-12 for level in np.unique(p)), (space, n)
    assert (p <= 0.05).mean() > 0.02


def test_p_value_is_fishers_combination():
    ranks, space = np.array([3.0, 70.0, 500.5]), 1e5
    statistic = -2 * np.log(ranks / space).sum()
    assert null_exposure.p_value(space, ranks) == pytest.approx(chi2.sf(statistic, 6))
    assert null_exposure.p_value(space, [7]) == pytest.approx(7 / space)
    assert null_exposure.p_value(space, [space] * 5) == 1.0
    assert null_exposure.smallest(100, 1) == pytest.approx(0.01)
    assert null_exposure.smallest(100, 3) == null_exposure.p_value(100, [1, 1, 1])


def test_slightly_known_secrets_are_found_together():
    draw = np.random.default_rng(0)
    ranks = np.ceil(1000 * draw.random((100, 60)) ** 1.5)
    assert np.mean([null_exposure.p_value(1000, row) <= 0.05 for row in ranks]) > 0.9
