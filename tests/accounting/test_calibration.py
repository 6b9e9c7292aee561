import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.accounting import Gaussians, Mechanism, calibrate, epsilon, least_noise
from audit.core.errors import UsageError
from tests.accounting.test_pld import RELATIONS, of_the_library


def calibrated(target, delta, q, count, relation, fixed=(), records=1):
    term = Gaussians(1.0, count, q, records)  # whose noise does not count
    return calibrate(target, delta, Mechanism((term, *fixed), relation))


def reached(sigma, q, count, relation, delta, others=(), records=1):
    term = Gaussians(sigma, count, q, records)
    return epsilon(Mechanism((term, *others), relation), delta)


@pytest.mark.parametrize(
    "target, delta, q, count, relation",
    [
        (1.0, 1e-5, 0.05, 200, "add_or_remove"),
        (8.0, 1e-6, 0.1, 300, "replace"),
        (20.0, 1e-4, 0.02, 10, "add_or_remove"),
        pytest.param(0.1, 1e-5, 0.5, 20, "add_or_remove", marks=pytest.mark.calibration),
        (3.0, 1e-5, 1.0, 40, "replace"),
    ],
)
def test_the_target_is_kept_and_with_less_noise_missed(target, delta, q, count, relation):
    sigma = calibrated(target, delta, q, count, relation)
    assert reached(sigma, q, count, relation, delta) <= target
    assert reached(0.995 * sigma, q, count, relation, delta) > target


LONG = pytest.mark.calibration


@pytest.mark.parametrize(
    "target, delta, q, count, relation, interval",
    [
        (1.0, 1e-5, 1e-5, 1000, "replace", 2e-3),
        (8.0, 1e-5, 0.2, 100, "replace", 2e-3),
        (3.0, 1e-8, 1e-4, 1000, "add_or_remove", 2e-3),
        pytest.param(3.0, 1e-5, 1e-3, 10**4, "add_or_remove", 1e-3, marks=LONG),
        pytest.param(3.0, 1e-5, 1e-3, 10**6, "replace", 5e-5, marks=LONG),
        pytest.param(0.5, 1e-6, 0.01, 1000, "add_or_remove", 2e-4, marks=LONG),
    ],
)
def test_the_noise_is_what_the_library_asks_for(target, delta, q, count, relation, interval):
    found = calibrated(target, delta, q, count, relation)
    mechanisms = (
        Mechanism((Gaussians(noise * found, count, q),), relation) for noise in (0.998, 1.002)
    )
    met = [of_the_library(one, interval, [delta])[0] <= target for one in mechanisms]
    assert met == [False, True]


def test_a_larger_target_takes_no_more_noise():
    check_target(0.3, 1e-8, 0.02, 30, "replace")


@pytest.mark.calibration
@settings(max_examples=30)
@given(
    st.floats(0.05, 12),
    st.sampled_from([1e-8, 1e-5, 1e-3]),
    st.sampled_from([1e-5, 1e-4, 1e-3, 0.02, 0.3]),
    st.sampled_from([1, 30, 1000]),
    st.sampled_from(sorted(RELATIONS)),
)
def test_any_target_is_kept_and_a_larger_one_takes_no_more_noise(target, delta, q, count, relation):
    check_target(target, delta, q, count, relation)


def check_target(target, delta, q, count, relation):
    sigma = calibrated(target, delta, q, count, relation)
    assert reached(sigma, q, count, relation, delta) <= target
    assert calibrated(1.1 * target, delta, q, count, relation) <= sigma * 1.001


@pytest.mark.full  # far from usual noise, where each step takes longest
def test_a_record_that_is_hardly_ever_in_it_needs_next_to_no_noise():
    assert calibrated(1.0, 1e-3, 1e-5, 1, "add_or_remove") < 0.03


def test_a_tiny_target_is_kept_too():
    """Below what the tolerance of ε resolves by itself."""
    for target in (1e-3, 2e-4):
        sigma = calibrated(target, 1e-5, 0.01, 50, "add_or_remove")
        assert reached(sigma, 0.01, 50, "add_or_remove", 1e-5) <= target
        assert reached(0.99 * sigma, 0.01, 50, "add_or_remove", 1e-5) > target


def test_what_is_released_along_is_paid_for():
    states = (Gaussians(20.0, 12),)
    alone = calibrated(6.0, 1e-5, 0.1, 50, "replace")
    along = calibrated(6.0, 1e-5, 0.1, 50, "replace", fixed=states)
    assert along > 1.01 * alone
    assert reached(along, 0.1, 50, "replace", 1e-5, states) <= 6.0
    assert reached(0.995 * along, 0.1, 50, "replace", 1e-5, states) > 6.0


def test_units_of_several_records_need_more_noise():
    one, five = (calibrated(4.0, 1e-5, 1.0, 10, "add_or_remove", records=n) for n in (1, 5))
    assert five == pytest.approx(5 * one, rel=2e-3)


def test_records_that_are_sampled_take_seconds_at_a_million_steps():
    """On the library's own grids and windows it took more than a minute."""
    start = time.process_time()
    sigma = calibrated(8.0, 1e-5, 1e-4, 10**6, "add_or_remove", records=3)
    assert time.process_time() - start < 10.0  # half a second on an idle core
    assert reached(sigma, 1e-4, 10**6, "add_or_remove", 1e-5, records=3) <= 8.0
    assert reached(0.995 * sigma, 1e-4, 10**6, "add_or_remove", 1e-5, records=3) > 8.0


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


def test_targets_that_no_noise_reaches_are_refused():
    for target in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(UsageError) as error:
            calibrated(target, 1e-5, 0.01, 100, "add_or_remove")
        assert "above 0" in one_line(error)
    for delta in (0.0, 1.0, -1e-5, math.nan):
        with pytest.raises(UsageError) as error:
            calibrated(1.0, delta, 0.01, 100, "add_or_remove")
        assert "0 < delta < 1" in one_line(error)


def test_an_unreachable_target_says_what_is_reachable():
    with pytest.raises(UsageError) as error:
        calibrated(0.01, 1e-9, 1.0, 10**6, "add_or_remove")
    least = reached(1e4, 1.0, 10**6, "add_or_remove", 1e-9)
    assert f"{least:.4g}" in one_line(error) and "10000" in one_line(error)
    with pytest.raises(UsageError) as error:
        calibrated(2.0, 1e-5, 0.01, 10, "replace", fixed=(Gaussians(1.0, 4),))
    assert f"{reached(0, 0.0, 0, 'replace', 1e-5, (Gaussians(1.0, 4),)):.4g}" in one_line(error)


# any falling ε


def test_least_noise_inverts_a_falling_epsilon():
    for target in (0.3, 3.0, 70.0):
        assert least_noise(lambda noise: 5 / noise, target) == pytest.approx(5 / target, rel=2e-3)
        assert least_noise(lambda noise: 5 / noise**2 + 1 / noise, target) > 1 / target


def test_least_noise_crosses_a_place_where_epsilon_becomes_finite():
    def falling(noise):
        return math.inf if noise < 2.0 else 1 / noise

    assert least_noise(falling, 0.2) == pytest.approx(5.0, rel=2e-3)
    with pytest.raises(UsageError, match=r"3 nats cannot be reached: noise of 2(\.\d+)? gives 0\."):
        least_noise(falling, 3.0)


def test_least_noise_says_what_lies_out_of_reach():
    for target in (1e-9, 1e9):
        with pytest.raises(UsageError, match=r"cannot be reached: noise gives 0\.0005 to 250$"):
            least_noise(lambda noise: 5 / noise, target)
