import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.statistics.renyi import least_divergence, renyi_divergence

EVEN, SKEW = np.log([0.5, 0.5]), np.log([0.25, 0.75])
orders = st.sampled_from([1.0001, 1.5, 2.0, 8.0, 1000.0])
pmfs = st.lists(st.floats(1e-6, 1), min_size=4, max_size=4).map(
    lambda x: np.log(np.array(x) / sum(x))
)


def test_known_divergences():
    assert renyi_divergence(EVEN, SKEW, 2.0) == pytest.approx(0.2876820725, abs=1e-10)
    assert renyi_divergence(SKEW, EVEN, 2.0) == pytest.approx(0.2231435513, abs=1e-10)


@given(pmfs, pmfs, st.floats(1.01, 20))
def test_divergence_is_its_definition(log_p, log_q, alpha):
    moment = np.sum(np.exp(log_q) * np.exp(log_p - log_q) ** alpha)
    assert renyi_divergence(log_p, log_q, alpha) == pytest.approx(
        max(0.0, math.log(moment) / (alpha - 1)), abs=1e-9, rel=1e-9
    )


@given(pmfs, pmfs)
def test_divergence_rises_with_the_order(log_p, log_q):
    """From nearly the divergence of Kullback and Leibler to nearly the largest log P/Q."""
    values = [float(renyi_divergence(log_p, log_q, a)) for a in (1.00001, 2.0, 50.0, 1e5)]
    assert values == sorted(values, key=lambda value: round(value, 9))
    assert values[0] == pytest.approx(float(np.exp(log_p) @ (log_p - log_q)), abs=1e-2)
    assert values[-1] == pytest.approx(float((log_p - log_q).max()), abs=1e-3)


@given(pmfs, pmfs, pmfs, pmfs, orders, st.floats(0, 1))
def test_divergence_adds_over_parts_and_falls_with_mixing(p1, q1, p2, q2, alpha, share):
    whole, other = renyi_divergence(p1, q1, alpha), renyi_divergence(p2, q2, alpha)
    assert whole >= 0
    assert renyi_divergence(p1, p1, alpha) == pytest.approx(0, abs=1e-10)
    joint = renyi_divergence(np.add.outer(p1, p2).ravel(), np.add.outer(q1, q2).ravel(), alpha)
    assert joint == pytest.approx(whole + other, abs=1e-9)
    mixed = [np.log((1 - share) * np.exp(x) + share * np.exp(p2)) for x in (p1, q1)]
    assert renyi_divergence(*mixed, alpha) <= whole + 1e-9  # with a shared part


def test_impossible_outcomes_have_their_limits():
    never = -math.inf
    only_first, both = [0.0, never], EVEN
    for alpha in (1.5, 2.0, 30.0):
        # p = 0 adds nothing: D = log 2 of any order, since P/Q = 2 wherever P is.
        assert renyi_divergence(only_first, both, alpha) == pytest.approx(math.log(2))
        assert renyi_divergence(both, only_first, alpha) == math.inf
        assert renyi_divergence(only_first, [never, 0.0], alpha) == math.inf
        padded = renyi_divergence([*EVEN, never], [*SKEW, never], alpha)
        assert padded == pytest.approx(float(renyi_divergence(EVEN, SKEW, alpha)))
    p = np.log([0.5, 0.5])
    assert least_divergence(p, [0.0, never], 2.0, 0.1) == math.inf
    assert least_divergence([0.0, never], p, 2.0, 0.0) == pytest.approx(math.log(2))
    assert least_divergence([p, p], [p, [0.0, never]], 2.0, 0.0).tolist() == [0.0, math.inf]


def test_divergence_broadcasts_over_rows():
    rows = np.stack([EVEN, SKEW, EVEN])
    found = renyi_divergence(rows, EVEN, 2.0)
    assert found.shape == (3,)
    assert found == pytest.approx([0, 0.2231435513, 0])


def test_unlikely_outcomes_do_not_underflow():
    log_p = np.array([math.log1p(-math.exp(-800.0)), -800.0])
    log_q = np.array([math.log1p(-math.exp(-2000.0)), -2000.0])
    assert renyi_divergence(log_p, log_q, 3.0) == pytest.approx((3 * -800 + 2 * 2000) / 2)
    assert renyi_divergence(log_p.astype(np.float32), log_q, 2.0).dtype == np.float64


@given(pmfs, pmfs, st.sampled_from([1.2, 2.0, 5.0]), st.sampled_from([1e-4, 0.05]), st.data())
def test_least_divergence_is_below_all_near_pmfs(p, q, alpha, error, data):
    least = float(least_divergence(p, q, alpha, error))
    assert 0.0 <= least <= renyi_divergence(p, q, alpha) + 1e-15
    signs = st.lists(st.floats(-1, 1), min_size=4, max_size=4).map(np.array)
    for _ in range(3):
        near = [log + error / 2 * data.draw(signs) for log in (p, q)]
        near = [log - np.log(np.exp(log).sum()) for log in near]
        assert all(np.abs(x - y).max() <= error for x, y in zip(near, (p, q), strict=True))
        assert least <= renyi_divergence(*near, alpha) + 1e-12


def test_least_divergence_is_nearly_reached():
    """Each log-probability moved as far as it may be, against the slope."""
    p, q, alpha, error = np.log([0.1, 0.2, 0.3, 0.4]), np.log([0.25] * 4), 2.0, 1e-4
    whole = float(renyi_divergence(p, q, alpha))
    weights = np.exp(alpha * p + (1 - alpha) * q - (alpha - 1) * whole)
    moved = [p - error * np.sign(weights - np.exp(p)), q + error * np.sign(weights - np.exp(q))]
    moved = [log - np.log(np.exp(log).sum()) for log in moved]
    least = float(least_divergence(p, q, alpha, error))
    assert least <= float(renyi_divergence(*moved, alpha)) < least + 0.4 * (whole - least)
    assert least == pytest.approx(whole, abs=3 * error * math.sqrt(whole))
    assert least_divergence(p, q, alpha, 0.0) == pytest.approx(whole)
