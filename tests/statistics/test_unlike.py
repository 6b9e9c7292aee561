"""Distances of two sides under permuted labels: beside plain loops and every possible division."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from audit.statistics import unlike
from audit.statistics.unlike import Norm, distances, p_value


def stream(seed=0):
    return np.random.default_rng(seed)


def plain(rows, inside, norm):
    """The distance as its definition has it, without matrices."""
    outside = [i for i in range(len(rows)) if i not in inside]
    gaps = [
        abs(sum(rows[i][c] for i in inside) / len(inside)
            - sum(rows[i][c] for i in outside) / len(outside))
        for c in range(len(rows[0]))
    ]  # fmt: skip
    return max(gaps) if norm == Norm.LARGEST else sum(gaps) / 2


@pytest.mark.parametrize("norm", Norm)
@pytest.mark.parametrize("n", [1, 3, 5])
def test_first_distance_is_of_true_labels(norm, n):
    rows = stream(n).random((8, 4))
    assert distances(rows, n, norm, 3, stream())[0] == pytest.approx(plain(rows, range(n), norm))


@pytest.mark.parametrize("norm", Norm)
@pytest.mark.parametrize("tied", [False, True])
def test_p_value_approaches_that_of_all_divisions(norm, tied):
    """Of 8 users, 3 of them inside: 56 divisions, with equal users and so with equal distances."""
    rows = stream(5).random((8, 3))
    rows = np.round(rows) if tied else rows
    every = [plain(rows, chosen, norm) for chosen in itertools.combinations(range(8), 3)]
    exact = np.mean([one >= plain(rows, range(3), norm) - 1e-9 for one in every])
    found = p_value(distances(rows, 3, norm, 20_000, stream()))
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4)


def test_least_p_value_counts_the_true_labels():
    rows = np.repeat([[1.0, 0.0], [0.0, 1.0]], 20, axis=0)
    for norm in Norm:
        assert p_value(distances(rows, 20, norm, 99, stream())) == 0.01


def test_equal_units_have_no_distance():
    found = distances(np.full((6, 2), 0.3), 2, Norm.HALF_SUM, 50, stream())
    assert p_value(found) == 1.0 and found.max() < 1e-12


def test_batches_change_nothing(monkeypatch):
    rows = stream(1).random((9, 4))
    whole = distances(rows, 4, Norm.LARGEST, 50, stream())
    monkeypatch.setattr(unlike, "_CELLS_AT_ONCE", 30)
    assert distances(rows, 4, Norm.LARGEST, 50, stream()) == pytest.approx(whole)


@pytest.mark.parametrize("n", [0, 5])
def test_side_without_units_is_refused(n):
    with pytest.raises(ValueError, match="both sides need units"):
        distances(np.ones((5, 2)), n, Norm.LARGEST, 9, stream())
