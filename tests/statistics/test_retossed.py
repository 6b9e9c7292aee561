"""A family adjusted by tossing again: exact where enumerable, free for copies of a test."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy

from audit.statistics import top_test
from audit.statistics.retossed import Again, Crossed, adjusted_p_values, toss_again, tosses_for
from audit.statistics.tossed import Ranked, Top, Tossed

EIGHTH = Fraction(1, 8)


def coins_of(users: int, heads: int, seed: int = 0) -> np.ndarray:
    coins = np.zeros(users, dtype=bool)
    coins[:heads] = True
    return np.random.default_rng(seed).permutation(coins)


def adjusted(tests: list[Tossed], coins: np.ndarray, tosses: int = 4_000) -> np.ndarray:
    return adjusted_p_values(tests, coins, np.random.default_rng(1), tosses)


@pytest.mark.parametrize("kind", ["ranked", "two-sided", "top"])
def test_one_test_equals_its_permutation_p_value(kind: str) -> None:
    """Over all C(10, 4) choices of heads, of a statistic computed by hand."""
    scores = np.array([3.0, 1, 4, 1, 5, 9, 2, 6, 5, 3])
    coins = np.zeros(10, dtype=bool)
    coins[[2, 4, 5, 7]] = True
    ranks = scipy.stats.rankdata(scores)

    def statistic(heads: tuple[int, ...]) -> float:
        if kind == "top":  # the two highest of ten
            return float(sum(ranks[i] >= 9 for i in heads))
        above = sum(ranks[i] for i in heads) - 4 * 5.5
        return abs(above) if kind == "two-sided" else above

    share = Fraction(1, 5)
    test = Top(scores, share) if kind == "top" else Ranked(scores, 2 if kind != "ranked" else 1)
    observed = statistic((2, 4, 5, 7))
    every = [statistic(heads) for heads in combinations(range(10), 4)]
    exact = sum(s >= observed - 1e-9 for s in every) / len(every)
    assert adjusted([test], coins)[0] == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("values", [range(9), [0, 0, 0, 0, 0, 0, 0, 5], [1, 1, 2, 2, 2, 7, 8]])
def test_few_ranks_are_counted_exactly(values: Iterable[int], sides: int) -> None:
    """By the rank sums of all choices of heads, of each number, with ties."""
    scores = np.array(list(values), dtype=float)
    ranks, n = scipy.stats.rankdata(scores), len(scores)
    for heads in range(n + 1):
        chosen = [list(each) for each in combinations(range(n), heads)]
        above = np.array([ranks[each].sum() for each in chosen]) - heads * (n + 1) / 2
        size = np.abs(above) if sides == 2 else above
        coins = np.zeros((len(chosen), n), dtype=bool)
        for row, each in zip(coins, chosen, strict=True):
            row[each] = True
        exact = [(size >= one - 1e-9).mean() for one in size]
        assert Ranked(scores, sides).p_values(coins) == pytest.approx(exact, rel=1e-9)


def test_ranks_counted_and_by_the_normal_law_agree() -> None:
    """A score more, with the middle rank, changes little."""
    scores, coins = np.random.default_rng(2).normal(size=64), coins_of(64, 32)
    for shift in (0.0, 0.4, 0.8):
        few = np.append(scores + shift * coins, np.nan)
        many = np.append(few[:-1], np.median(few[:-1]))
        one, other = (Ranked(s).p_value(np.append(coins, False)) for s in (few, many))
        assert one == pytest.approx(other, rel=0.2)


def test_copies_of_a_test_cost_the_family_nothing() -> None:
    scores, coins = np.random.default_rng(2).normal(size=60), coins_of(60, 30)
    scores[coins] += 0.7
    one = adjusted([Ranked(scores)], coins)[0]
    assert adjusted([Ranked(scores)] * 20, coins) == pytest.approx([one] * 20)


def test_unlike_tests_cost_what_their_number_does() -> None:
    """Of independent tests, the smallest p is adjusted as by Šidák: 1 − (1 − p)^k."""
    stream, coins = np.random.default_rng(5), coins_of(80, 40)
    tests: list[Tossed] = [Ranked(stream.normal(size=80)) for _ in range(9)]
    raw = min(float(test.p_values(coins[None])[0]) for test in tests)
    assert adjusted(tests, coins).min() == pytest.approx(1 - (1 - raw) ** 9, abs=0.05)


def test_adjusted_order_is_that_of_raw_p_values() -> None:
    stream, coins = np.random.default_rng(8), coins_of(40, 20)
    tests: list[Tossed] = [Ranked(stream.normal(size=40) + shift * coins) for shift in (0, 1, 2)]
    raw = [float(test.p_values(coins[None])[0]) for test in tests]
    result = adjusted(tests, coins)
    assert (np.argsort(result, kind="stable") == np.argsort(raw)).all()
    assert (result >= 1 / 4_001).all()


def test_users_without_a_score_change_nothing() -> None:
    scores, coins = np.random.default_rng(3).normal(size=30), coins_of(30, 15)
    longer = np.concatenate([scores, [np.nan] * 10])
    more = np.concatenate([coins, coins_of(10, 5)])
    for make in (lambda s: Ranked(s, 2), lambda s: Top(s, EIGHTH)):
        assert make(longer).p_values(more[None]) == pytest.approx(
            make(scores).p_values(coins[None])
        )
    assert Ranked(np.full(30, np.nan)).p_values(coins[None]) == 1.0
    assert Top(np.full(30, np.nan), EIGHTH).p_values(coins[None]) == 1.0


def test_constant_scores_are_never_found() -> None:
    flat, coins = np.zeros(30), coins_of(30, 15)
    assert (adjusted([Ranked(flat, 2), Top(flat, EIGHTH)], coins) == 1.0).all()


def test_top_p_value_is_that_of_the_exact_test() -> None:
    scores, coins = np.random.default_rng(4).normal(size=48), coins_of(48, 20)
    p = top_test.p_value(scores[coins], scores[~coins], EIGHTH)
    assert Top(scores, EIGHTH).p_values(coins[None])[0] == pytest.approx(p)


def test_least_adjusted_p_value_is_below_a_thousandth_of_tests() -> None:
    assert tosses_for(3) == 9_999
    assert tosses_for(200, cells=2) == 40_000


@pytest.mark.calibration
@pytest.mark.parametrize("shared", [0.0, 0.7, 1.0])
def test_complete_null_errs_in_at_most_one_run_of_twenty(shared: float) -> None:
    """33 tests over 120 users, 400 runs: at most 5 % at .05 and 15 % at .15, and near it."""
    stream, least = np.random.default_rng(11), []
    for run in range(400):
        coins = stream.random(120) < 0.5
        common = stream.normal(size=120)
        scores = [shared * common + stream.normal(size=120) for _ in range(16)]
        tests: list[Tossed] = [Ranked(s, 2) for s in scores]
        tests += [Top(s, EIGHTH) for s in scores] + [Ranked(common)]
        least.append(adjusted_p_values(tests, coins, np.random.default_rng(run), 999).min())
    for level in (0.05, 0.15):
        share, error = float(np.mean(np.array(least) <= level)), np.sqrt(level * (1 - level) / 400)
        assert share <= level + 3 * error
        assert share >= level - 4 * error


def test_rank_test_far_tail_is_near_the_exact_one() -> None:
    """With Cornish and Fisher's term: the normal law alone is half as much again off here."""
    stream, heads = np.random.default_rng(0), np.arange(60) < 30
    scores = stream.normal(size=60) + 1.3 * heads
    exact = scipy.stats.mannwhitneyu(scores[heads], scores[~heads], method="exact")
    assert exact.pvalue < 1e-3
    assert Ranked(scores, 2).p_value(heads) == pytest.approx(exact.pvalue, rel=0.1)


LEAST = 1 / 400  # of the 4,001 tosses, what one look of several may have


@pytest.mark.parametrize("agree", [1.0, 0.9, 0.0])
def test_looks_are_crossed_by_their_shares_of_all_tosses(agree: float) -> None:
    """Whichever toss is the true one: so some look errs with at most the sum of the shares."""
    stream, crossed = np.random.default_rng(4), None
    z = stream.normal(size=4_001)
    for look in range(1, 9):
        z = agree * z + (1 - agree**2) ** 0.5 * stream.normal(size=4_001)
        crossed = Again(np.empty(0), np.empty(0), scipy.stats.norm.cdf(z)).crossed(LEAST, crossed)
        assert crossed.looks == look
        assert crossed.tosses.sum() == int(look * LEAST * 4_001)  # no two are equal
    assert agree < 1 or (crossed.tosses == (z <= np.sort(z)[crossed.tosses.sum() - 1])).all()


def test_equal_tosses_cross_together_or_wait() -> None:
    """What a look leaves of its share is added to that of the next."""
    nearly = 1 - 1e-12 * np.arange(100)  # equal but for rounding
    least = np.repeat([0.25, 0.5, 1.0], [10, 30, 60]) * nearly
    of = Again(np.empty(0), np.empty(0), least).crossed
    assert [of(share).tosses.sum() for share in (0.09, 0.1, 0.39, 0.4)] == [0, 10, 10, 40]
    crossed = None
    for many in (0, 10, 10, 10, 40):
        crossed = of(0.08, crossed)
        assert crossed.tosses.sum() == many


@pytest.mark.parametrize("shift", [0.0, 0.4, 0.9])
def test_true_toss_crosses_where_its_p_value_says(shift: float) -> None:
    coins, stream = coins_of(60, 30), np.random.default_rng(6)
    base, crossed, seen = stream.normal(size=60) + shift * coins, None, False
    for look in range(1, 7):
        tests: list[Tossed] = [Ranked(base + 0.3 * stream.normal(size=60)) for _ in range(3)]
        found = toss_again(tests, coins, np.random.default_rng(1), 4_000, crossed)
        crossed = found.crossed(LEAST, crossed)
        assert (found.so_far >= found.p_values).all()
        seen = seen or found.so_far.min() <= look * LEAST
        assert bool(crossed.tosses[0]) == seen
    assert seen == (shift > 0.4)


def test_least_of_each_toss_is_over_all_tests() -> None:
    coins, stream = coins_of(20, 10), np.random.default_rng(3)
    one, two = (Ranked(stream.normal(size=20)) for _ in range(2))
    first, second, both = (
        toss_again(tests, coins, np.random.default_rng(1), 99).least
        for tests in ([one], [two], [one, two])
    )
    assert (both == np.minimum(first, second)).all()
    assert (both < first).any() and (both < second).any()


def test_other_numbers_of_tosses_are_refused() -> None:
    before = Crossed(np.zeros(9, dtype=bool), 1)
    with pytest.raises(ValueError, match="4001 tosses are needed; got 9"):
        toss_again([], coins_of(6, 3), np.random.default_rng(1), 4_000, before)
