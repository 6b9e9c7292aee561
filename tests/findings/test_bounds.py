"""The rules of a bound on ε, fixed by the number of coins: together valid, and close.

Their joint p-value has its oracles in tests/statistics/test_nested_guesses.py.
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

from audit.findings import bounds
from audit.results.schema import EpsilonLower
from audit.statistics import nested_guesses, one_run
from tests.findings.by_hand import answered, finding, promise
from tests.findings.closeness import median_bound, six
from tests.findings.joined import case
from tests.simulations import more, repeats

DELTA = 1e-5


def shown(scores: Sequence[float], present: Sequence[bool], **more: Any) -> EpsilonLower:
    """The bound from one score and one coin of each owner."""
    of = case([], present, **{"delta": DELTA, **more})
    bound = bounds.presence(dict(zip(of.coins.present, map(float, scores), strict=True)), of)
    assert bound is not None
    return bound


# the rules, and who is guessed


@pytest.mark.parametrize(
    ("coins", "counts"),
    [(2, [2]), (4, [2]), (12, [1, 2, 4, 8]), (60, [1, 2, 5, 10, 14, 24, 40]),
     (120, [2, 5, 10, 20, 30, 48, 80]), (1000, [20, 41, 83, 166, 250, 400, 666])],
)  # fmt: skip
def test_rules_are_fixed_by_the_number_of_coins(coins: int, counts: list[int]) -> None:
    rules = bounds.rules(coins)
    assert [rule.count for rule in rules] == counts
    assert [rule.both for rule in rules] == sorted(rule.both for rule in rules)


def test_each_rule_guesses_in_for_the_highest_and_out_for_the_lowest() -> None:
    """240 owners by falling score; the ten highest, the 40th and three of the lowest are "in"."""
    present = np.zeros(240, dtype=bool)
    present[[*range(10), 39, 230, 235, 239]] = True
    bound = shown(-np.arange(240.0), present)
    assert bound.m == 240
    highest, lowest = [(5, 5), (10, 10), (20, 10)], [(40, 27), (60, 37)]
    assert bound.guesses == [*highest, *lowest, (96, 11 + 48 - 3), (160, 11 + 80 - 3)]


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
    assert [r - v for (r, v) in again][:3] == right[7, :3].tolist()  # the same lots


# the bound and the p-value, by their oracle


def in_turn(m: int, seed: int, share: float) -> list[int]:
    """Right guesses of each rule, where each guess is right with this probability."""
    each = np.cumsum(np.random.default_rng(seed).random(m) < share)
    return [int(each[rule.count - 1]) for rule in bounds.rules(m)]


counted = st.tuples(
    st.integers(60, 1000), st.integers(0, 10**6), st.sampled_from([0.5, 0.8, 0.95])
).map(lambda drawn: (drawn[0], in_turn(*drawn)))


def bound_of(m: int, right: Sequence[int], delta: float = DELTA) -> EpsilonLower:
    guesses = [(rule.count, v) for rule, v in zip(bounds.rules(m), right, strict=True)]
    empty = EpsilonLower(
        value=0.0, method="one_run", hypothesis="none", unit="user", relation="add_or_remove",
        delta=delta, m=m, guesses=guesses,
    )  # fmt: skip
    return empty.model_copy(update={"value": bounds.at_delta(empty, delta)})


@given(counted)
@settings(max_examples=40, deadline=None)
def test_bound_is_never_below_that_of_shares(given_: tuple[int, list[int]]) -> None:
    """At δ = 0 each rule alone, at its share of the error, shows no more than all together."""
    bound = bound_of(*given_, 0.0)
    each = bound.guesses or []
    alone = [one_run.epsilon_lower(given_[0], r, v, 0.0, 1 - 0.05 / len(each)) for r, v in each]
    assert bound.value >= max(alone) - 1e-5


@given(counted, st.sampled_from([0.0, 1e-6, 1e-4]))
@settings(max_examples=40, deadline=None)
def test_claim_and_bound_agree(given_: tuple[int, list[int]], delta: float) -> None:
    """p < 0.05 if and only if the claim is below the bound."""
    bound = bound_of(*given_, delta)
    for epsilon in (0.0, bound.value - 1e-6, bound.value + 1e-6, bound.value + 1.0):
        if epsilon >= 0.0:
            p = bounds.claim_p_value(bound, epsilon, delta)
            assert (p < 0.05) == (epsilon < bound.value), (epsilon, bound.value)


def test_all_guesses_right_gives_the_closed_form() -> None:
    """δ = 0: the most guesses show most, and no others as much: q^666 = 0.05."""
    q = 0.05 ** (1 / 666)
    right = [rule.count for rule in bounds.rules(1000)]
    assert bound_of(1000, right, 0.0).value == six(math.log(q / (1 - q)))
    assert bounds.largest(1000, 0.0) == six(math.log(q / (1 - q)))


def test_at_another_delta_the_same_evidence_is_read() -> None:
    bound = bound_of(1000, (20, 41, 75, 140, 200, 310, 500))
    for delta in (0.0, 1e-7, 1e-4):
        shown = nested_guesses.epsilon_lower(1000, bound.guesses or [], delta)
        assert bounds.at_delta(bound, delta) == six(shown)
    assert bounds.at_delta(bound, 0.0) > bound.value > bounds.at_delta(bound, 1e-4) > 0.0


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
    """Of 1,000 owners 10 are named, then 20; of 60 owners 15."""
    few = bound_of(1000, (10, 10, 10, 93, 135, 210, 343))
    assert bounds.largest(1000, DELTA, named=10) == six(few.value)
    some = bound_of(1000, (20, 20, 20, 103, 145, 220, 353))
    assert bounds.largest(1000, DELTA, named=20) == six(some.value) and some.value > few.value
    assert bounds.largest(1000, DELTA, named=1000) == bounds.largest(1000, DELTA)
    fifteen = bound_of(60, (1, 2, 5, 10, 14, 24, 35)).value
    assert bounds.largest(60, DELTA, named=15) == six(fifteen) and fifteen > 0.5


def test_fewer_than_two_coins_show_nothing() -> None:
    assert bounds.largest(1, 0.0) is None and bounds.largest(0, 0.0) is None
    assert bounds.presence({"u0": 1.0}, case([], [True])) is None


def test_answer_on_a_claim_follows_all_rules() -> None:
    """The highest twenty alone are all right; no other rule shows anything."""
    bound = bound_of(1000, (20, 30, 50, 91, 133, 208, 341))
    assert bound.value == pytest.approx(1.3, abs=0.1)
    for epsilon, word in ((1.0, "refuted"), (2.4, "not refuted")):
        given_ = finding(epsilon_lower=bound, p_value=0.5)
        result = answered(given_, promise(epsilon, delta=DELTA))
        assert (result.claim, result.leaked) == (word, "leak")  # whose size the claim's test says


# releases of known ε, and releases that know nothing


@repeats(20, 500)
@pytest.mark.parametrize("epsilon", [1.0, *more(0.5, 2.0)])
def test_randomised_response_is_bounded_closely(epsilon: float, runs: int) -> None:
    """Whoever is trained on scores higher, but for a coin of 1/(1 + e^ε): all leak alike."""
    generator, found = np.random.default_rng(int(10 * epsilon)), []
    for run in range(runs):
        present = generator.random(1000) < 0.5
        told = present ^ (generator.random(1000) < 1 / (1 + math.exp(epsilon)))
        found.append(shown(told, present, seed=run).value)
    assert (np.array(found) > epsilon).mean() <= binom.ppf(0.999, runs, 0.05) / runs
    closest = median_bound(1000, epsilon)  # at δ = 0, which shows a little more
    assert np.median(found) == pytest.approx(closest, abs=0.08)
    assert np.median(found) > epsilon - 0.35


def minority(m: int, share: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Of the members, this share stands above everybody; all others are alike."""
    present = generator.random(m) < 0.5
    leaking = present & (generator.random(m) < share)
    return generator.normal(size=m) + 100.0 * leaking, present


@repeats(20, 400)
@pytest.mark.parametrize(("share", "expected"), [(0.05, 1.31), (0.2, 2.89)], ids=["5 %", "20 %"])
def test_leaking_minority_is_shown(share: float, expected: float, runs: int) -> None:
    """1,000 coins; thirds alone show 0 and 0.21 in the median."""
    generator = np.random.default_rng(int(100 * share))
    found = [shown(*minority(1000, share, generator), seed=run).value for run in range(runs)]
    assert np.median(found) == pytest.approx(expected, abs=0.15)
