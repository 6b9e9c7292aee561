"""Laws of sums, against closed forms."""

import numpy as np
import pytest
from scipy.stats import binom, nbinom

from audit.statistics.sums import on_grid, sum_law


@pytest.mark.parametrize(("q", "count"), [(0.3, 1), (0.5, 12), (0.01, 400)])
def test_coins_add_up_to_a_binomial_law(q, count):
    law = sum_law(np.array([1 - q, q]), count)
    due = binom.pmf(np.arange(law.size), count, q)
    np.testing.assert_allclose(law, due, atol=1e-14)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_long_tail_is_kept():
    """Geometric values, of which every place has a mass."""
    q, count = 0.4, 30
    law = sum_law(q * (1 - q) ** np.arange(400), count)
    np.testing.assert_allclose(law, nbinom.pmf(np.arange(law.size), count, q), atol=1e-13)


def test_the_grid_keeps_mass_and_mean():
    values, masses = np.array([0.0, 1.25, 1.5, 7.0]), np.array([0.4, 0.1, 0.2, 0.3])
    grid = on_grid(values, masses)
    np.testing.assert_allclose(grid, [0.4, 0.175, 0.125, 0, 0, 0, 0, 0.3, 0])
    assert grid @ np.arange(grid.size) == pytest.approx(values @ masses)
