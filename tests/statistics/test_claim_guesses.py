"""How many guesses and coins a test on a trade-off curve takes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from audit.statistics.claim_curve import Curve, gaussian, is_refuted, p_value
from audit.statistics.claim_guesses import coins_needed, guess_count, least_rejected

FRACTIONS = (3, 4, 6, 8, 12)


@settings(max_examples=25)
@given(st.integers(1, 90), st.data(), st.floats(0.1, 2.0), st.sampled_from([0.05, 0.005]))
def test_the_critical_number_is_where_p_falls_below_the_level(m, data, mu, level):
    curve = gaussian(mu)
    r = data.draw(st.integers(1, m))
    least = least_rejected(curve, m, r, level)
    rejected = [v for v in range(r + 1) if p_value(curve, m, r, v) < level]
    assert rejected == ([] if least is None else list(range(least, r + 1)))


def power(curve, m, s, least, draws):
    """How often so many guesses refute where scores are N(0, 1), and N(μ_a, 1) of the present."""
    claimed = 2.0 * norm.ppf((1.0 + curve.deltas[0]) / 2.0)
    present = draws.random((1500, m)) < 0.5
    scores = draws.normal(present * (2.0 * claimed + 0.2))
    ranked = np.take_along_axis(present, np.argsort(scores, axis=1), axis=1)
    right = ranked[:, m - s :].sum(axis=1) + (~ranked[:, :s]).sum(axis=1)
    return (right >= least).mean()


@pytest.mark.parametrize("mu", [0.3, 0.7])
@pytest.mark.parametrize("m", [50, 120, 500])
def test_the_number_of_guesses_has_nearly_the_largest_power(mu, m):
    curve, draws = gaussian(mu), np.random.default_rng(m)
    s, least = guess_count(curve, m, 0.05)
    assert s in {m // k for k in FRACTIONS}
    assert least == least_rejected(curve, m, 2 * s, 0.05)
    mine = power(curve, m, s, least, draws)
    for k in FRACTIONS:
        critical = least_rejected(curve, m, 2 * (m // k), 0.05)
        if critical is not None:
            assert mine >= power(curve, m, m // k, critical, draws) - 0.06
    assert mine > 0.2


def test_of_equal_powers_the_larger_number_of_guesses_is_taken():
    always = Curve(np.array([0.0]), np.array([0.0]))  # nothing may depend on a coin
    assert guess_count(always, 10_000, 0.05)[0] == 3333


def test_where_nothing_refutes_a_third_is_guessed():
    assert guess_count(gaussian(6.0), 120, 0.05) == (40, None)
    assert guess_count(gaussian(1.0), 2, 0.05) == (1, None)
    assert guess_count(Curve(np.array([0.0]), np.array([1.0])), 90, 0.05) == (30, None)
    with pytest.raises(ValueError, match="at least 2 coins"):
        guess_count(gaussian(1.0), 1, 0.05)


@pytest.mark.parametrize("mu", [0.2, 1.0, 1.5])
@pytest.mark.parametrize("level", [0.05, 0.005])
def test_so_many_coins_and_no_fewer_are_needed(mu, level):
    curve = gaussian(mu)
    needed = coins_needed(curve, level)
    assert needed is not None
    assert guess_count(curve, needed - 1, level)[1] is None
    for m in (*range(needed, needed + 30), 2 * needed, 5 * needed):
        assert guess_count(curve, m, level)[1] is not None


def test_a_smaller_level_and_a_larger_claim_need_more_coins():
    numbers = [
        coins_needed(gaussian(mu), level) for mu in (0.5, 1.0, 2.0) for level in (0.05, 1e-3)
    ]
    assert None not in numbers
    assert numbers[::2] == sorted(numbers[::2]) and numbers[1::2] == sorted(numbers[1::2])
    assert all(a < b for a, b in zip(numbers[::2], numbers[1::2], strict=True))


def test_some_claims_are_never_refuted():
    """A δ of 6 % lets everything be published with that probability."""
    assert coins_needed(Curve(np.array([1.0]), np.array([0.06])), 0.05) is None
    assert coins_needed(Curve(np.array([1.0]), np.array([0.01])), 0.05) is not None


def test_all_right_is_what_could_refute_at_best():
    curve = gaussian(1.0)
    needed = coins_needed(curve, 0.05)
    s, least = guess_count(curve, needed, 0.05)
    assert least <= 2 * s
    assert is_refuted(curve, needed, 2 * s, 2 * s, 0.05)
