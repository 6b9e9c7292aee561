"""How many guesses and coins a test on a trade-off curve takes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from audit.statistics.claim_curve import Curve, gaussian, is_refuted, p_value
from audit.statistics.claim_guesses import coins_needed, guess_count, least_rejected

FRACTIONS = (3, 4, 6, 8, 12)


def flat(epsilon, delta):
    """The claim that everything is published with probability δ."""
    return Curve(np.array([epsilon]), np.array([delta]))


@settings(max_examples=25)
@given(st.integers(1, 90), st.data(), st.floats(0.1, 2.0), st.sampled_from([0.05, 0.005]))
def test_critical_number_is_where_p_falls_below_level(m, data, mu, level):
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


def test_number_of_guesses_has_nearly_the_largest_power():
    for mu, m in ((mu, m) for mu in (0.3, 0.7) for m in (50, 120, 500)):
        curve, draws = gaussian(mu), np.random.default_rng(m)
        s, least = guess_count(curve, m, 0.05)
        assert s in {m // k for k in FRACTIONS}
        assert least == least_rejected(curve, m, 2 * s, 0.05)
        mine = power(curve, m, s, least, draws)
        for k in FRACTIONS:
            critical = least_rejected(curve, m, 2 * (m // k), 0.05)
            if critical is not None:
                assert mine >= power(curve, m, m // k, critical, draws) - 0.06, (mu, m, k)
        assert mine > 0.2, (mu, m)


def test_of_equal_powers_the_larger_number_is_taken():
    assert guess_count(flat(0.0, 0.0), 10_000, 0.05)[0] == 3333  # nothing may depend on a coin


def test_a_third_is_guessed_where_nothing_refutes():
    assert guess_count(gaussian(6.0), 120, 0.05) == (40, None)
    assert guess_count(gaussian(1.0), 2, 0.05) == (1, None)
    assert guess_count(flat(0.0, 1.0), 90, 0.05) == (30, None)


def test_coins_needed_are_the_fewest_that_refute():
    numbers = {}
    for mu, level in ((mu, level) for mu in (0.2, 1.0, 1.5) for level in (0.05, 0.005)):
        curve = gaussian(mu)
        numbers[mu, level] = needed = coins_needed(curve, level)
        s, _ = guess_count(curve, needed, level)
        assert is_refuted(curve, needed, 2 * s, 2 * s, level)  # all right
        assert guess_count(curve, needed - 1, level)[1] is None
        for m in (*range(needed, needed + 30), 2 * needed, 5 * needed):
            assert guess_count(curve, m, level)[1] is not None, (mu, level, m)
    assert all(numbers[mu, 0.05] < numbers[mu, 0.005] for mu in (0.2, 1.0, 1.5))
    for level in (0.05, 0.005):
        assert numbers[0.2, level] <= numbers[1.0, level] < numbers[1.5, level]


def test_some_claims_are_never_refuted():
    """A δ of 6 % lets everything be published with that probability."""
    assert coins_needed(flat(1.0, 0.06), 0.05) is None
    assert coins_needed(flat(1.0, 0.01), 0.05) is not None
