"""Nested rules of guessing tested together: exact by enumeration, valid at the boundary, close."""

from bisect import bisect_left
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from audit.findings.bounds import rules
from audit.statistics import one_run
from audit.statistics.nested_guesses import critical_counts, epsilon_lower, p_value

DELTA = 1e-5


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


@cache
def bound(m, guesses, delta=DELTA):
    return epsilon_lower(m, guesses, delta)


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


def ranked_coins(runs, m, shift, share, generator):
    present = generator.random((runs, m)) < 0.5
    leaking = present & (generator.random((runs, m)) < share)
    order = np.argsort(-(generator.normal(size=(runs, m)) + shift * leaking), axis=1)
    return np.take_along_axis(present, order, axis=1)


def right_of(present, each, both):
    inside = present[:, :each].sum(axis=1)
    return inside + (~present[:, -each:]).sum(axis=1) if both else inside


def best_single(present):
    """The largest median bound of one rule at the whole error, whichever it is."""
    m = present.shape[1]
    medians = []
    for both, each in product((True, False), np.unique(np.geomspace(1, m // 2, 25).astype(int))):
        right, r = right_of(present, each, both), int(each) * (2 if both else 1)
        medians.append(np.median([bound(m, ((r, int(v)),)) for v in right]))
    return max(medians)


def median_of_all(present):
    m = present.shape[1]
    counts = np.stack([right_of(present, rule.each, rule.both) for rule in rules(m)], axis=1)
    sizes = [rule.count for rule in rules(m)]
    found = [bound(m, tuple(zip(sizes, row, strict=True))) for row in counts.tolist()]
    return np.median(found)


@pytest.mark.parametrize(
    ("m", "runs"), [(120, 100), *(pytest.param(m, 1000, marks=pytest.mark.calibration)
                                  for m in (120, 500))]
)  # fmt: skip
def test_all_rules_show_85_percent_of_the_best(m, runs):
    """Gaussian scores at shifts 1, 2 and 4; and where a fifth of the users leaks, not nothing."""
    for shift in (1.0, 2.0, 4.0):
        present = ranked_coins(runs, m, shift, 1.0, np.random.default_rng([m, int(shift)]))
        best, found = best_single(present), median_of_all(present)
        print(f"m={m} shift={shift}: {found:.2f} of {best:.2f}, {found / best:.0%}")
        assert found >= 0.85 * best
    fifth = ranked_coins(runs, m, 100.0, 0.2, np.random.default_rng(m))
    print(f"m={m} a fifth: {median_of_all(fifth):.2f} of {best_single(fifth):.2f}")
    assert median_of_all(fifth) > 0.5
