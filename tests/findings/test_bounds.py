"""The four one-run tests of a bound on ε: each by its own oracle, together valid, and close.

Theorem 5.2 of arXiv 2305.08846 for each (r, v) at a quarter of the error; the rules of guessing
depend on the number of coins alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from audit.core.predictor import Access
from audit.core.secret import Coins
from audit.findings import Case, bounds
from audit.findings.bounds import Guesses
from audit.results.schema import EpsilonLower
from audit.statistics import one_run
from tests.findings.by_hand import answered, finding, promise
from tests.findings.closeness import median_bound, six
from tests.simulations import repeats

DELTA = 1e-5


def names(m: int) -> list[str]:
    return [f"u{i}" for i in range(m)]


def shown(scores: Sequence[float], present: Sequence[bool], **more: Any) -> EpsilonLower:
    """The bound from one score and one coin of each owner."""
    owners = names(len(present))
    coins = Coins(dict(zip(owners, map(bool, present), strict=True)), dict.fromkeys(owners, 0))
    options: dict[str, Any] = {"delta": DELTA, "seed": 0, "access": Access.DISTRIBUTION, **more}
    bound = bounds.presence(
        dict(zip(owners, map(float, scores), strict=True)), Case("a", (), coins, **options)
    )
    assert bound is not None
    return bound


# the rules, and who is guessed


@pytest.mark.parametrize(("coins", "each"), [(2, 1), (3, 1), (5, 1), (6, 2), (60, 20), (199, 66)])
def test_with_few_coins_a_third_is_guessed_on_either_side_and_nothing_else(
    coins: int, each: int
) -> None:
    assert bounds.rules(coins) == [Guesses(each, both=True)]
    assert bounds.rules(coins)[0].count == 2 * each <= coins


@pytest.mark.parametrize(
    ("coins", "counts"),
    [(200, [132, 32, 16, 4]), (239, [158, 38, 19, 4]), (240, [160, 40, 20, 5]),
     (500, [332, 82, 41, 10]), (1000, [666, 166, 83, 20])],
)  # fmt: skip
def test_with_many_coins_four_rules_are_fixed_beforehand(coins: int, counts: list[int]) -> None:
    rules = bounds.rules(coins)
    assert [rule.count for rule in rules] == counts
    assert [rule.both for rule in rules] == [True, True, False, False]


def test_each_rule_guesses_in_for_the_highest_and_out_for_the_lowest() -> None:
    """240 owners by falling score; the ten highest, the 40th and three of the lowest are "in"."""
    present = np.zeros(240, dtype=bool)
    present[[*range(10), 39, 230, 235, 239]] = True
    bound = shown(-np.arange(240.0), present)
    assert bound.m == 240
    assert bound.guesses == [(160, 11 + 80 - 3), (40, 10 + 20 - 3), (20, 10), (5, 5)]


def test_whoever_scores_lower_if_trained_on_is_no_bound_on_epsilon() -> None:
    """The guesses are fixed beforehand: all of them are wrong."""
    bound = shown(np.arange(300.0), [i < 150 for i in range(300)])
    assert bound.guesses == [(r, 0) for r, _ in bound.guesses or []] and bound.value == 0.0


def test_ties_are_broken_by_lots_that_know_no_coin() -> None:
    """All alike: the right guesses of each rule are a hypergeometric draw, over the seeds."""
    present = [i < 100 for i in range(240)]
    right = np.array(
        [[v for _, v in shown([0.0] * 240, present, seed=s).guesses or []] for s in range(300)]
    )
    share, top = 100 / 240, 20
    mean, sd = top * share, math.sqrt(top * share * (1 - share) * (220 / 239))
    assert right[:, 2].mean() == pytest.approx(mean, abs=4 * sd / math.sqrt(300))
    assert right[:, 2].std() == pytest.approx(sd, rel=0.2)
    again = shown([0.0] * 240, [not p for p in present], seed=7).guesses or []
    assert [r - v for (r, v) in again][2:] == right[7, 2:].tolist()  # the same lots


# the bound and the p-value, by their oracle


counted = st.integers(200, 1500).flatmap(
    lambda m: st.tuples(
        st.just(m), st.tuples(*(st.integers(0, rule.count) for rule in bounds.rules(m)))
    )
)


def bound_of(m: int, right: Sequence[int], delta: float = DELTA) -> EpsilonLower:
    guesses = [(rule.count, v) for rule, v in zip(bounds.rules(m), right, strict=True)]
    empty = EpsilonLower(
        value=0.0, method="one_run", hypothesis="none", unit="user", relation="add_or_remove",
        delta=delta, m=m, guesses=guesses,
    )  # fmt: skip
    return empty.model_copy(update={"value": bounds.at_delta(empty, delta)})


@given(counted, st.sampled_from([0.0, 1e-6, 1e-4]), st.floats(0.0, 6.0))
@settings(max_examples=40, deadline=None)
def test_bound_and_p_value_are_those_of_the_four_at_a_quarter_of_the_error(
    given_: tuple[int, tuple[int, ...]], delta: float, epsilon: float
) -> None:
    m, right = given_
    bound = bound_of(m, right, delta)
    each = [(r, v) for r, v in bound.guesses or []]
    alone = [one_run.epsilon_lower(m, r, v, delta, 1 - 0.05 / 4) for r, v in each]
    assert bound.value == six(max(alone))
    p_values = [one_run.p_value(epsilon, m, r, v, delta) for r, v in each]
    p = bounds.claim_p_value(bound, epsilon, delta)
    assert p == six(min(1.0, 4 * min(p_values)))
    assert bounds.claim_p_value(bound, epsilon, delta / 2) <= p
    assert bounds.claim_p_value(bound, epsilon + 0.1, delta) >= p


@given(counted, st.sampled_from([0.0, 1e-6, 1e-4]))
@settings(max_examples=40, deadline=None)
def test_claim_and_bound_agree(given_: tuple[int, tuple[int, ...]], delta: float) -> None:
    """p < 0.05 if and only if the claim is below the bound."""
    bound = bound_of(*given_, delta)
    for epsilon in (0.0, bound.value - 1e-6, bound.value + 1e-6, bound.value + 1.0):
        if epsilon >= 0.0:
            p = bounds.claim_p_value(bound, epsilon, delta)
            assert (p < 0.05) == (epsilon < bound.value), (epsilon, bound.value)


@pytest.mark.parametrize(
    ("right", "lead"), [((444, 90, 45, 12), 0), ((340, 150, 45, 12), 1), ((340, 90, 80, 12), 2),
                        ((340, 90, 45, 20), 3)],
)  # fmt: skip
def test_whichever_test_shows_most_is_the_bound(right: tuple[int, ...], lead: int) -> None:
    bound = bound_of(1000, right)
    r, v = (bound.guesses or [])[lead]
    assert bound.value > 0.3
    assert bound.value == six(one_run.epsilon_lower(1000, r, v, DELTA, 1 - 0.05 / 4))


def test_all_guesses_right_gives_the_closed_form() -> None:
    """δ = 0: the most guesses show most, q^666 = 0.05/4."""
    q = 0.0125 ** (1 / 666)
    right = [rule.count for rule in bounds.rules(1000)]
    assert bound_of(1000, right, 0.0).value == six(math.log(q / (1 - q)))
    assert bounds.largest(1000, 0.0) == six(math.log(q / (1 - q)))


def test_at_another_delta_the_same_evidence_is_read_at_the_same_quarter() -> None:
    bound = bound_of(1000, (500, 140, 75, 20))
    for delta in (0.0, 1e-7, 1e-4, 1e-3):
        expected = max(
            one_run.epsilon_lower(1000, r, v, delta, 1 - 0.05 / 4) for r, v in bound.guesses or []
        )
        assert bounds.at_delta(bound, delta) == six(expected)
    assert bounds.at_delta(bound, 0.0) > bound.value > bounds.at_delta(bound, 1e-3)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("tests", [1, 5])
def test_the_largest_claim_that_could_be_refuted_is_refuted_by_all_right_and_none_above(
    tests: int, delta: float
) -> None:
    """At the level that a claim is tested at: 0.05 over the tests of it."""
    for m in (60, 199, 200, 1000):
        largest = bounds.largest(m, delta, claim_tests=tests)
        assert largest is not None
        every = bound_of(m, [rule.count for rule in bounds.rules(m)], delta)
        assert bounds.claim_p_value(every, largest - 1e-6, delta) < 0.05 / tests
        assert bounds.claim_p_value(every, largest + 1e-6, delta) > 0.05 / tests
        assert bounds.most_at(every, delta, 0.05 / tests) == six(largest)


def test_with_few_that_can_stand_out_only_so_many_can_be_guessed_in() -> None:
    """Ten of 1,000 owners named: 10 of 20 and of 83, 83 + 10, 333 + 10 right; of 20 named, all 20
    of the highest."""
    few = bound_of(1000, (333 + 10, 83 + 10, 10, 10))
    assert bounds.largest(1000, DELTA, named=10) == six(few.value)
    some = bound_of(1000, (333 + 20, 83 + 20, 20, 20))
    assert bounds.largest(1000, DELTA, named=20) == six(some.value)
    assert some.value == six(one_run.epsilon_lower(1000, 20, 20, DELTA, 1 - 0.05 / 4))
    assert bounds.largest(1000, DELTA, named=1000) == bounds.largest(1000, DELTA)
    fifteen = one_run.epsilon_lower(60, 40, 15 + 20, DELTA)  # of 60, 20 are guessed on either side
    assert bounds.largest(60, DELTA, named=15) == six(fifteen) and fifteen > 0.5


def test_fewer_than_two_coins_show_nothing() -> None:
    assert bounds.largest(1, 0.0) is None and bounds.largest(0, 0.0) is None
    case = Case("a", (), Coins({"u0": True}, {"u0": 0}), 0.0, 0, Access.SCORE)
    assert bounds.presence({"u0": 1.0}, case) is None


def test_with_few_coins_nothing_has_changed() -> None:
    """One test at the whole error: 100 coins, 66 guesses, 50 right."""
    present = [i < 33 for i in range(100)]
    present[:8], present[-8:] = [False] * 8, [True] * 8
    bound = shown(-np.arange(100.0), present)
    assert bound.guesses == [(66, 50)]
    assert bound.value == six(one_run.epsilon_lower(100, 66, 50, DELTA, 0.95))
    p = bounds.claim_p_value(bound, 0.2, DELTA)
    assert p == six(one_run.p_value(0.2, 100, 66, 50, DELTA))


@pytest.mark.parametrize(("epsilon", "word"), [(1.0, "refuted"), (2.4, "not refuted")])
def test_the_answer_on_a_claim_follows_the_four_tests(epsilon: float, word: str) -> None:
    """The highest twenty alone are all right: at least 1.35; no other test shows anything."""
    bound = bound_of(1000, (333, 83, 45, 20))
    assert bound.value == pytest.approx(1.35, abs=0.05)
    given_ = finding(epsilon_lower=bound, p_value=0.5)
    result = answered(given_, promise(epsilon, delta=DELTA))
    assert result.claim == word
    assert result.leaked == "leak"  # the guesses show one; how large, the claim's test says


# releases of known ε, and releases that know nothing


def randomised_response(
    m: int, epsilon: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    present = generator.random(m) < 0.5
    return present ^ (generator.random(m) < 1 / (1 + math.exp(epsilon))), present


@repeats(40, 1000)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_randomised_response_over_a_thousand_coins_is_bounded_from_below_and_closely(
    epsilon: float, runs: int
) -> None:
    """Whoever is trained on scores higher, but for a coin of 1/(1 + e^ε): all leak alike."""
    generator = np.random.default_rng(int(10 * epsilon))
    found = np.array([
        shown(*randomised_response(1000, epsilon, generator), seed=run).value for run in range(runs)
    ])  # fmt: skip
    assert (found > epsilon).mean() <= binom.ppf(0.999, runs, 0.05) / runs
    closest = median_bound(1000, epsilon)  # at δ = 0, which shows a little more
    assert np.median(found) == pytest.approx(closest, abs=0.08)
    assert np.median(found) > epsilon - 0.35


def minority(m: int, share: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of the members, this share stands above everybody; all others are alike."""
    present = generator.random(m) < 0.5
    leaking = present & (generator.random(m) < share)
    return generator.normal(size=m) + 100.0 * leaking, present


def thirds_alone(scores: np.ndarray, present: np.ndarray) -> float:
    """The bound that thirds would show at the whole error."""
    ranked, third = present[np.argsort(-scores)], len(scores) // 3
    right = int(ranked[:third].sum() + (~ranked[-third:]).sum())
    return one_run.epsilon_lower(len(scores), 2 * third, right, DELTA)


@repeats(40, 400)
@pytest.mark.parametrize(
    ("share", "expected", "before"), [(0.05, 1.34, 0.0), (0.2, 2.86, 0.21)], ids=["5 %", "20 %"]
)
def test_a_minority_that_leaks_completely_is_shown(
    share: float, expected: float, before: float, runs: int
) -> None:
    """1,000 coins; thirds alone show 0 and 0.21 in the median."""
    generator = np.random.default_rng(int(100 * share))
    given_ = [minority(1000, share, generator) for _ in range(runs)]
    found = [shown(*one, seed=run).value for run, one in enumerate(given_)]
    assert np.median(found) == pytest.approx(expected, abs=0.15)
    assert np.median([thirds_alone(*one) for one in given_]) == pytest.approx(before, abs=0.15)


@repeats(40, 400)
@pytest.mark.parametrize(("shift", "expected"), [(1.0, 1.45), (2.0, 3.20)])
def test_gaussian_scores_show_more_than_by_thirds_alone(
    shift: float, expected: float, runs: int
) -> None:
    generator, found, before = np.random.default_rng(int(shift)), [], []
    for run in range(runs):
        present = generator.random(1000) < 0.5
        scores = generator.normal(size=1000) + shift * present
        found.append(shown(scores, present, seed=run).value)
        before.append(thirds_alone(scores, present))
    assert np.median(found) == pytest.approx(expected, abs=0.15)
    assert np.median(found) > np.median(before) + 0.3


@repeats(200, 2000)
@pytest.mark.parametrize("levels", [3, 10**9], ids=["ties", "no ties"])
def test_fair_coins_and_scores_that_know_nothing_rarely_show_an_epsilon(
    levels: int, runs: int
) -> None:
    generator, alarms = np.random.default_rng(levels), 0
    for run in range(runs):
        m = int(generator.integers(200, 500))
        scores = np.floor(levels * generator.random(m))
        bound = shown(scores, generator.random(m) < 0.5, delta=0.0, seed=run)
        alarms += bound.value > 0.0
        assert (bounds.claim_p_value(bound, 0.0, 0.0) < 0.05) == (bound.value > 0.0)
    assert 0.003 * runs < alarms <= binom.ppf(0.999, runs, 0.05)


@repeats(200, 2000)
@pytest.mark.parametrize("share", [0.35, 0.42, 0.58, 0.65])
def test_lopsided_numbers_of_members_rarely_show_an_epsilon_above_that_of_the_coins(
    share: float, runs: int
) -> None:
    """A coin that falls "in" with this probability is no fair one: who guesses one side alone is
    right with odds share/(1 − share), of ε = ln of it, and no more than 5 % of runs show more."""
    truth = abs(math.log(share / (1 - share)))
    generator, alarms = np.random.default_rng(int(100 * share)), 0
    for run in range(runs):
        m = int(generator.integers(200, 500))
        bound = shown(generator.normal(size=m), generator.random(m) < share, delta=0.0, seed=run)
        alarms += bound.value > truth
        thirds, twelfths = (bound.guesses or [])[:2]
        for r, v in (thirds, twelfths):  # both sides: lopsided coins are no leak
            assert one_run.epsilon_lower(m, r, v, 0.0, 1 - 1e-6) == 0.0
    assert alarms <= binom.ppf(0.999, runs, 0.05)
