"""Names in generations, joined with the coins: counts by hand, the null, releases of known ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audit.core.evidence import Mentions
from audit.core.guarantee import no_guarantee
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, Space
from audit.findings import Case, measurements_of
from audit.results.measurement import Measurement
from audit.statistics.stopped_rate import Series, stopped_rate
from tests.findings.by_hand import answered
from tests.findings.closeness import median_bound, six
from tests.simulations import more, repeats

DRAWN = Space((("Ann", "Ben", "Cat"), (" Lee", " Orr")))


def people(n: int, own: bool = False) -> list[Secret]:
    """Two names of each owner; where they are the corpus's own, one name in both slots."""
    space = None if own else DRAWN
    return [
        Secret(
            "name", "I am ", f"Name {i}{'' if own else 'ab'[slot]}", ".", space, 4, f"u{i}", slot
        )
        for i in range(n)
        for slot in (0, 1)
    ]


def case(secrets: Sequence[Secret], present: Sequence[bool], **more: Any) -> Case:
    names = [f"u{i}" for i in range(len(present))]
    coins = Coins(dict(zip(names, map(bool, present), strict=True)), dict.fromkeys(names, 0))
    options: dict[str, Any] = {"delta": 0.0, "seed": 0, "access": Access.GENERATE, **more}
    return Case("name_leak", tuple(secrets), coins, **options)


def naming(*generations: Sequence[int], others: Sequence[float] | None = None) -> Mentions:
    named = tuple(map(tuple, generations))
    return Mentions(named, np.full(len(named), np.nan) if others is None else np.array(others))


def found(evidence: Mentions, of: Case) -> Measurement:
    first, *_ = measurements_of([evidence], of)
    assert first.metric == "r_name"
    return first


# --- by hand


def test_generations_are_counted_by_whether_they_name_somebody_trained_on() -> None:
    """u0 and u1 are trained on under their first names, u2 and u3 are not."""
    given = naming([0], [2, 4], [1], [], [4], [4, 6], [], [0, 2])
    one = found(given, case(people(4), [True, True, False, False]))
    assert (one.k, one.interval.n, one.interval.value) == (3, 8, 3 / 8)
    assert one.control is not None
    assert (one.control.k, one.control.n, one.control.value) == (3, 8, 3 / 8)
    assert one.observation == "3 of 8 generations name a planted user who was trained on, 3 a twin."
    assert one.interval.ci == pytest.approx((0.085, 0.755), abs=0.001)  # Clopper-Pearson, 3 of 8
    assert (one.unit, one.access, one.chance) == ("share of generations", "generate", None)
    assert one.power.smallest_rate == six(1 - 0.05 ** (1 / 8))


def test_where_answers_can_end_the_session_shares_are_bounded_at_any_stopping_time() -> None:
    given = naming([0], [2, 4], [1], [], others=[1, 0, 0, 1])
    of = case(people(4), [True, True, False, False], cut=True)
    named, others = measurements_of([given], of)
    assert named.ci == others.ci == six(stopped_rate([Series(2, 4)]).ci)
    assert named.control is not None and named.control.ci == six(stopped_rate([Series(1, 4)]).ci)
    limit = six(stopped_rate([Series(0, 4)]).high)
    assert named.power.smallest_rate == others.power.smallest_rate == limit
    assert (named.cut, others.cut) == (True, True)
    named, others = measurements_of([replace(given, whole=True)], of)
    assert (named.cut, others.cut) == (False, False)


def test_the_p_value_is_that_of_coins_which_fall_on_who_was_named() -> None:
    """u0 to u5 are trained on and named once, u6 is not and twice: six or more of eight namings
    fall on one side in so many of the 128 outcomes of seven coins."""
    given = naming(*[[2 * i] for i in range(6)], [12], [12])
    one = found(given, case(people(8), [True] * 6 + [False, False]))
    weights = [1] * 6 + [2]
    totals = [sum(w for i, w in enumerate(weights) if bits >> i & 1) for bits in range(128)]
    assert one.p_value == six(sum(total >= 6 or total <= 2 for total in totals) / 128)
    assert one.sides == 2


def test_who_is_named_more_often_counts_more_and_is_one_coin() -> None:
    eight = [True] * 4 + [False] * 4
    once = found(naming(*[[0]] * 100), case(people(8), eight))
    assert once.k == 100 and once.p_value == 1.0  # one coin, and it falls on some side
    each = found(naming([0], [2], [4], [6]), case(people(8), eight))
    assert each.p_value == six(2 / 16)
    favourite = found(naming([0], [0], [2], [2], [4], [8]), case(people(8), eight))
    assert favourite.p_value == six(6 / 16)  # of 2 + 2 + 1 + 1: five twice, six once
    assert found(naming([0], [8]), case(people(8), eight)).p_value == 1.0
    assert found(naming([], []), case(people(8), eight)).p_value == 1.0


def test_names_that_a_block_list_silences_are_a_leak() -> None:
    """Ten who are not trained on are named, nobody of the ten who are: 2 · 2^−10."""
    given = naming(*[[2 * i] for i in range(10, 20)])
    one = found(given, case(people(20), [i < 10 for i in range(20)]))
    assert (one.k, one.control.k if one.control else None) == (0, 10)
    assert one.p_value == six(2 * 0.5**10)
    assert one.epsilon_lower is not None and one.epsilon_lower.value == 0.0  # guesses were "in"
    result = answered(one, no_guarantee("it is a test"))
    assert result.leaked == "leak" and "this figure alone hides it" in result.sentence


def test_both_names_of_an_owner_speak_of_one_coin_and_one_of_them_was_planted() -> None:
    """The other name is no planted one; a text with both names the owner once."""
    first, both, other = naming([0]), naming([0, 1]), naming([1])
    of = case(people(6), [True] * 3 + [False] * 3)
    assert [found(e, of).k for e in (first, both, other)] == [1, 1, 0]
    assert {found(e, of).p_value for e in (first, both, other)} == {1.0}
    for named in ([0], [0, 1], [1]):  # with u1's and u2's, three of three coins
        assert found(naming(named, [2], [4]), of).p_value == six(2 / 8)
    assert found(naming([0, 1], [8]), of).p_value == 1.0  # one naming on either side


def test_own_names_are_one_name_in_both_slots() -> None:
    given = naming([0], [2], [4], [6], [10])
    one = found(given, case(people(6, own=True), [True] * 4 + [False] * 2))
    assert (one.k, one.control.k) == (4, 1)  # type: ignore[union-attr]
    assert one.p_value == six(2 * 6 / 32)  # four or five of five on one side


def test_all_guesses_right_gives_the_closed_form_of_epsilon() -> None:
    """60 owners, the 20 who are named most and the 20 who are named least: q^40 = 0.05."""
    given = naming(*[[2 * i] for i in range(30)])
    bound = found(given, case(people(60), [i < 30 for i in range(60)])).epsilon_lower
    q = 0.05 ** (1 / 40)
    assert bound is not None and (bound.m, bound.guesses[-1]) == (60, (40, 40))
    assert bound.value == six(math.log(q / (1 - q)))
    assert (bound.unit, bound.relation) == ("user", "add_or_remove")


@pytest.mark.parametrize("present", [0, 1, 29, 30])
@pytest.mark.parametrize("given", [naming([], []), naming(list(range(60)), list(range(60)))])
def test_naming_nobody_or_everybody_shows_no_epsilon_however_coins_fell(
    present: int, given: Mentions
) -> None:
    for seed in range(20):
        one = found(given, case(people(30), [i < present for i in range(30)], seed=seed))
        assert one.epsilon_lower is not None and one.epsilon_lower.value == 0.0
        if present in (0, 30):
            assert one.epsilon_lower.guesses[-1] == (20, 10)


@pytest.mark.parametrize("present", [[True] * 6, [False] * 6])
def test_one_side_alone_is_counted(present: list[bool]) -> None:
    one = found(naming([0], [4], []), case(people(6), present))
    assert one.k == 2 * present[0]
    assert one.control is not None and one.control.k == 2 * (not present[0])
    assert one.p_value == six(2 / 4)  # both coins fell alike, on either side


def test_silence_is_judged_by_one_name_a_text_and_a_leak_by_all_of_them() -> None:
    one = found(naming([0, 2, 4, 6], [8, 10, 12, 14]), case(people(8), [True] * 8))
    assert one.p_value == six(2 / 256)
    assert one.least_p == six(2 / 4)


def test_nothing_generated_is_nothing_measured() -> None:
    one = found(naming(), case(people(6), [True] * 3 + [False] * 3))
    assert (one.interval.value, one.p_value, one.epsilon_lower, one.control) == (None,) * 4
    assert (one.power.smallest_rate, one.power.largest_epsilon) == (None, None)


@pytest.mark.parametrize(
    ("owners", "tests", "tested"), [(0, 1, False), (1, 1, False), (5, 1, False), (6, 1, True),
                                    (6, 2, False), (9, 10, True)],
)  # fmt: skip
def test_so_few_coins_that_none_could_convince_are_not_tested(
    owners: int, tests: int, tested: bool
) -> None:
    """All coins fall alike with probability 2·2^−owners: 1/16, 1/32, 1/256."""
    one = found(naming(*[[]] * 20), case(people(owners), [True] * owners, tests=tests))
    assert (one.least_p * tests < 0.05) == tested
    few = found(naming(*[[]] * 5), case(people(owners), [True] * owners, tests=tests))
    assert few.least_p * tests >= 0.05  # five generations name five people at most
    assert (one.epsilon_lower is None) == (owners < 2)


@pytest.mark.parametrize(("tainted", "stronger"), [(False, False), (True, True)])
def test_samples_after_a_reading_are_stronger_than_the_release(
    tainted: bool, stronger: bool
) -> None:
    of = case(people(6), [True] * 6, tainted=tainted)
    assert found(naming([0]), of).stronger_than_release is stronger


# --- everybody else


def test_without_a_recogniser_nothing_is_said_of_others() -> None:
    assert len(measurements_of([naming([0], [])], case(people(6), [True] * 6))) == 1


def test_names_of_others_are_described_and_never_tested() -> None:
    given = naming([0], [], [], [2], others=[0.0, 1.0, 1.0, 1.0])
    _, other = measurements_of([given], case(people(6), [True] * 6))
    assert (other.metric, other.k, other.interval.n) == ("other_names", 3, 4)
    assert (other.p_value, other.control, other.epsilon_lower) == (None, None, None)
    assert other.observation == "3 of 4 generations name a person whom no coin decides."
    sensitive = {("name_leak", "other_names"): True}
    result = answered(other, no_guarantee("it is a test"), sensitive)
    assert result.leaked == "inconclusive" and "nothing can be tested" in result.sentence


# --- releases that know nothing, and releases that know exactly so much


@repeats(200, 2000)
@pytest.mark.parametrize(("owners", "length"), [(12, 40), (30, 8)])
def test_favourites_of_a_release_are_rarely_taken_for_a_leak(
    owners: int, length: int, runs: int
) -> None:
    """Some names are said over and over, several in one text, and none for what the coins were."""
    generator = np.random.default_rng(owners)
    secrets, leaks, shown = people(owners), 0, 0
    allowed = binom.ppf(0.999, runs, 0.05)
    for run in range(runs):
        taste = generator.dirichlet(np.full(2 * owners, 10.0 ** generator.uniform(-2, 1)))
        said = generator.choice(2 * owners, size=(length, 2), p=taste)
        kept = generator.random((length, 2)) < 0.5
        given = naming(*[sorted(set(row[keep])) for row, keep in zip(said, kept, strict=True)])
        of = case(secrets, (generator.random(owners) < 0.5).tolist(), seed=run)
        one = found(given, of)
        assert one.p_value is not None and one.epsilon_lower is not None
        leaks += one.p_value <= 0.05
        shown += one.epsilon_lower.value > 0
    assert 0.01 * runs < leaks <= allowed
    assert shown <= allowed


@repeats(20, 200)
@pytest.mark.parametrize("epsilon", [1.0, *more(0.5, 2.0)])
def test_randomised_response_on_coins_is_bounded_from_below_and_closely(
    epsilon: float, runs: int
) -> None:
    """Whoever is trained on is named, and whoever is not is not, but for a coin of 1/(1 + e^ε)."""
    m, bounds = 300, []
    secrets, generator = people(m, own=True), np.random.default_rng(int(10 * epsilon))
    for run in range(runs):
        present = generator.random(m) < 0.5
        told = present ^ (generator.random(m) < 1 / (1 + math.exp(epsilon)))
        given = naming(*[[2 * i] for i in np.flatnonzero(told)])
        bound = found(given, case(secrets, present.tolist(), delta=1e-6, seed=run)).epsilon_lower
        assert bound is not None
        bounds.append(bound.value)
    assert np.mean(np.array(bounds) > epsilon) <= binom.ppf(0.999, runs, 0.05) / runs
    assert np.median(bounds) == pytest.approx(median_bound(m, epsilon), abs=0.1)
