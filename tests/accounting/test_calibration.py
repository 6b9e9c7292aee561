import math

import pytest

from audit.accounting import Gaussians, Mechanism, calibrate, epsilon
from audit.errors import UsageError


def reached(sigma, q, count, relation, delta, others=(), records=1):
    term = Gaussians(sigma, count, q, records)
    return epsilon(Mechanism((term, *others), relation), delta)


@pytest.mark.parametrize(
    "target, delta, q, count, relation",
    [
        (1.0, 1e-5, 0.05, 200, "add_or_remove"),
        (8.0, 1e-6, 0.1, 300, "replace"),
        (0.1, 1e-5, 0.5, 20, "add_or_remove"),
        (20.0, 1e-4, 0.02, 10, "add_or_remove"),
        (3.0, 1e-5, 1.0, 40, "replace"),
    ],
)
def test_the_target_is_kept_and_with_less_noise_missed(target, delta, q, count, relation):
    sigma = calibrate(target, delta, q, count, relation)
    assert reached(sigma, q, count, relation, delta) <= target
    assert reached(0.995 * sigma, q, count, relation, delta) > target


def test_what_is_released_along_is_paid_for():
    states = (Gaussians(20.0, 12),)
    alone = calibrate(6.0, 1e-5, 0.1, 50, "replace")
    along = calibrate(6.0, 1e-5, 0.1, 50, "replace", others=states)
    assert along > 1.01 * alone
    assert reached(along, 0.1, 50, "replace", 1e-5, states) <= 6.0
    assert reached(0.995 * along, 0.1, 50, "replace", 1e-5, states) > 6.0


def test_units_of_several_records_need_more_noise():
    one, five = (calibrate(4.0, 1e-5, 1.0, 10, "add_or_remove", records=n) for n in (1, 5))
    assert five == pytest.approx(5 * one, rel=2e-3)


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
def test_no_noise_reaches_a_target_that_is_not_above_zero(target):
    with pytest.raises(UsageError) as error:
        calibrate(target, 1e-5, 0.01, 100, "add_or_remove")
    assert "above 0" in one_line(error)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_delta_must_be_a_probability_above_zero(delta):
    with pytest.raises(UsageError) as error:
        calibrate(1.0, delta, 0.01, 100, "add_or_remove")
    assert "0 < delta < 1" in one_line(error)


def test_an_unreachable_target_says_what_is_reachable():
    with pytest.raises(UsageError) as error:
        calibrate(0.01, 1e-9, 1.0, 10**6, "add_or_remove")
    least = reached(1e4, 1.0, 10**6, "add_or_remove", 1e-9)
    assert f"{least:.4g}" in one_line(error) and "10000" in one_line(error)
    with pytest.raises(UsageError) as error:
        calibrate(2.0, 1e-5, 0.01, 10, "replace", others=(Gaussians(1.0, 4),))
    assert f"{reached(0, 0.0, 0, 'replace', 1e-5, (Gaussians(1.0, 4),)):.4g}" in one_line(error)
