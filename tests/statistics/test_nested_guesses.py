"""Nested rules of guessing tested together: exact by enumeration, valid at the boundary."""

from bisect import bisect_left
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from audit.findings.bounds import rules
from audit.statistics import one_run
from audit.statistics.nested_guesses import critical_counts, epsilon_lower, p_value


def nested_counts(sizes, generator, right):
    """Right guesses of each rule over one unit after the other."""
    each = np.cumsum(generator.random(max(sizes)) < right)
    return [(r, int(each[r - 1])) for r in sizes]


counted = st.tuples(
    st.lists(st.integers(1, 60), min_size=1, max_size=5, unique=True).map(sorted),
    st.integers(0, 10**6),
    st.sampled_from([0.5, 0.8, 0.95]),
).map(lambda t: nested_counts(t[0], np.random.default_rng(t[1]), t[2]))


@given(st.tuples(*[st.booleans()] * 10), st.floats(0, 4), st.sampled_from([0.0, 1e-3]))
@settings(max_examples=25, deadline=None)
def test_p_value_is_that_of_all_outcomes(seen, epsilon, delta):
    """2¹⁰ outcomes of ten guesses by four rules: those with a limit as high as the one seen."""
    sizes, q = (1, 3, 6, 10), 1 / (1 + np.exp(-epsilon))
    guesses = [(r, sum(seen[:r])) for r in sizes]
    enough = critical_counts(guesses)
    assert any(v >= c for (_, v), c in zip(guesses, enough, strict=True))
    chance = sum(
        q ** sum(right) * (1 - q) ** (10 - sum(right))
        for right in product((0, 1), repeat=10)
        if any(sum(right[:r]) >= c for r, c in zip(sizes, enough, strict=True))
    )
    steinke = sum(
        one_run.p_value(epsilon, 12, r, c, delta)
        for r, c in zip(sizes, enough, strict=True)
        if c <= r
    )
    expected = min(1.0, chance + 12 * delta / 2, steinke)
    assert p_value(epsilon, 12, guesses, delta) == pytest.approx(expected, rel=1e-9)


@given(counted, st.floats(0, 6), st.floats(0, 1), st.sampled_from([0.0, 1e-6, 1e-3, 0.05]))
@settings(max_examples=60, deadline=None)
def test_p_value_rises_with_epsilon_and_delta(guesses, epsilon, more, delta):
    p = p_value(epsilon, 60, guesses, delta)
    assert p <= p_value(epsilon + more, 60, guesses, delta) * (1 + 1e-9)
    assert p <= p_value(epsilon, 60, guesses, 2 * delta + 1e-4) * (1 + 1e-9)


@given(counted, st.sampled_from([0.0, 1e-6, 1e-3]), st.sampled_from([0.05, 0.005]))
@settings(max_examples=60, deadline=None)
def test_bound_is_where_the_p_value_crosses(guesses, delta, error):
    epsilon = epsilon_lower(60, guesses, delta, error)
    if epsilon > 0:
        assert p_value(epsilon, 60, guesses, delta) < error
    assert p_value(epsilon + 1e-8, 60, guesses, delta) >= error * (1 - 1e-6)


def test_one_rule_alone_has_its_exact_bound():
    for r, v in ((40, 30), (80, 80), (12, 11)):
        alone = one_run.epsilon_lower(120, r, v)
        assert epsilon_lower(120, [(r, v)]) == pytest.approx(alone, abs=1e-8)


@pytest.mark.parametrize("guesses", [[], [(3, 4)], [(4, 4), (8, 3)], [(4, 0), (8, 5)], [(61, 9)]])
def test_counts_that_are_not_nested_are_refused(guesses):
    with pytest.raises(ValueError):
        p_value(1.0, 60, guesses)


def reached(sizes, enough, q):
    """P[some rule has its critical count]: by its complement, one guess after the other."""
    short = np.zeros(sizes[-1] + 2)
    short[0] = 1.0
    for place in range(1, sizes[-1] + 1):
        short[1:] = short[1:] * (1 - q) + short[:-1] * q
        short[0] *= 1 - q
        for r, c in zip(sizes, enough, strict=True):
            if r == place:
                short[c:] = 0.0
    return 1.0 - short.sum()


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-4])
@pytest.mark.parametrize(
    ("m", "epsilon"), [(60, 0.5), (120, 0.5), (120, 2.0), (500, 0.5), (500, 2.0), (500, 4.0)]
)
def test_level_is_kept_and_nearly_used(m, epsilon, delta):
    """All outcomes that refute the truth, summed for three (ε, δ)-DP releases at the boundary.

    Independent coins told with odds e^ε; these, but each given away with probability δ; these, but
    all given away at once with probability δ. The level is a step below 5 % at most.
    """
    sizes = [rule.count for rule in rules(m)]
    regions = []
    for r in sizes:  # the least that refutes by this rule: v right, the others wrong where possible
        seen = [tuple((s, max(0, v - max(0, r - s))) for s in sizes) for v in range(r + 1)]
        refutes = bisect_left(seen, True, key=lambda one: p_value(epsilon, m, one, delta) < 0.05)
        regions += [critical_counts(one) for one in seen[refutes : refutes + 1]]
    q = expit(epsilon)
    at_once = max(reached(sizes, enough, q) for enough in regions)
    one_by_one = max(reached(sizes, enough, q + delta * (1 - q)) for enough in regions)
    assert at_once <= one_by_one <= 0.05
    assert delta + (1 - delta) * at_once <= 0.05
    assert at_once + m * delta / 2 > 0.03
