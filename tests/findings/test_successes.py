"""Attacks that succeed or fail on each secret: counts by hand, the null, releases of known ε."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audit.core.evidence import Successes
from audit.core.guarantee import no_guarantee
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, Space
from audit.findings import Case, measurements_of
from audit.results.measurement import Measurement
from audit.statistics.stopped_rate import Series, stopped_rate
from tests.findings.by_hand import answered
from tests.findings.closeness import median_bound, six
from tests.simulations import more, repeats

NAN = float("nan")


def records(n: int) -> list[Secret]:
    """A record is one value in both slots."""
    return [
        Secret("record", "", f"text {i}", "", None, 1, f"u{i}", slot)
        for i in range(n)
        for slot in (0, 1)
    ]


def case(secrets: Sequence[Secret], present: Sequence[bool], **more: Any) -> Case:
    names = [f"u{i}" for i in range(len(present))]
    coins = Coins(dict(zip(names, map(bool, present), strict=True)), dict.fromkeys(names, 0))
    options: dict[str, Any] = {"delta": 0.0, "seed": 0, "access": Access.DISTRIBUTION, **more}
    return Case("extraction", tuple(secrets), coins, **options)


def won(*firsts: float, seconds: Sequence[float] | None = None, chance: float | None = None) -> Any:
    """Of each owner; the second value as the first where it is not given."""
    pairs = zip(firsts, firsts if seconds is None else seconds, strict=True)
    return Successes("verbatim", "share of planted records", np.array([*pairs]).ravel(), chance)


def found(evidence: Successes, of: Case) -> Measurement:
    (finding,) = measurements_of([evidence], of)
    return finding


# --- by hand


def test_where_answers_can_end_the_session_the_share_is_bounded_at_any_stopping_time() -> None:
    of = case(records(6), [True] * 3 + [False] * 3, cut=True)
    one = found(won(1, 1, NAN, 1, 0, 0), of)
    assert one.ci == six(stopped_rate([Series(2, 2)]).ci) and one.cut is True
    assert one.control is not None and one.control.ci == six(stopped_rate([Series(1, 3)]).ci)


def test_successes_are_counted_by_hand() -> None:
    one = found(won(1, 1, 0, 1, 0, 0), case(records(6), [True] * 3 + [False] * 3))
    assert (one.metric, one.unit, one.access) == ("verbatim", "share of planted records", "score")
    assert (one.k, one.n, one.value) == (2, 3, six(2 / 3))
    assert one.control is not None
    assert (one.control.k, one.control.n, one.control.value) == (1, 3, six(1 / 3))
    assert one.observation == "2 of 3 planted secrets, 1 of 3 twins."
    assert "of these trained models" in one.interval.method
    none = found(won(0, 0, 0, 1, 1, 1), case(records(6), [True] * 3 + [False] * 3)).interval
    assert none.ci == six((0.0, 1 - 0.025 ** (1 / 3)))
    assert one.power.smallest_rate == six(1 - 0.05 ** (1 / 3))


def test_the_p_value_counts_coins_of_those_it_worked_on() -> None:
    """Won on four who are trained on and one who is not, or the reverse: 2 P[Bin(5, ½) ≥ 4]."""
    one = found(won(1, 1, 1, 1, 0, 1, 0, 0), case(records(8), [True] * 5 + [False] * 3))
    assert one.p_value == six(12 / 32) and one.sides == 2
    every = found(won(*[1] * 8), case(records(8), [True] * 8))
    assert every.p_value == six(2 / 256)
    none = found(won(*[0] * 8), case(records(8), [True] * 8))
    assert none.p_value == 1.0


def test_planted_secrets_that_are_blocked_are_a_leak() -> None:
    """It never works on the ten who are trained on, and always on the ten who are not."""
    present = [True] * 10 + [False] * 10
    one = found(won(*[0] * 10, *[1] * 10), case(records(20), present))
    assert (one.k, one.control.k if one.control else None) == (0, 10)
    assert one.p_value == six(2 * 0.5**10)
    assert one.epsilon_lower is not None and one.epsilon_lower.value == 0.0  # guesses were "in"
    result = answered(one, no_guarantee("it is a test"))
    assert result.leaked == "leak" and "this figure alone hides it" in result.sentence


def test_what_was_not_measured_is_left_out_with_its_owner() -> None:
    """u1 and u4 were not reached; u2's second value was not."""
    given = won(1, NAN, 1, 1, NAN, 0, 0, 0, 0, seconds=[0, NAN, NAN, 1, 0, 0, 0, 0, 0])
    one = found(given, case(records(9), [True] * 4 + [False] * 5))
    assert (one.k, one.interval.n) == (3, 3)  # u0, u2 and u3 by their first values
    assert one.control is not None and one.control.n == 4
    assert one.p_value == six(2 / 4)  # u0 and u3 alone are owners it can speak of
    assert one.epsilon_lower is not None and one.epsilon_lower.m == 6
    nothing = found(won(*[NAN] * 9), case(records(9), [True] * 4 + [False] * 5))
    assert (nothing.interval.value, nothing.p_value, nothing.epsilon_lower) == (None,) * 3
    assert (nothing.control, nothing.power.n, nothing.power.smallest_rate) == (None, 0, None)


def test_an_owner_that_is_left_out_takes_nobody_elses_coin() -> None:
    """It worked on u1 to u4, of whom none is trained on; u0, who is, was not reached. Had they the
    coins of u0 to u3, three would be tails."""
    given = won(NAN, 1, 1, 1, 1, 0)
    one = found(given, case(records(6), [True] + [False] * 5))
    assert one.p_value == six(2 / 16)
    other = found(given, case(records(6), [False, True] + [False] * 4))
    assert other.p_value == six(10 / 16)


def test_one_success_on_either_value_is_one_of_the_owner() -> None:
    """The attacker may not know which of the two was planted."""
    given = won(0, 0, 0, 0, 0, 0, seconds=[1, 1, 1, 1, 1, 0])
    one = found(given, case(records(6), [True] * 5 + [False]))
    assert one.k == 0 and one.p_value == six(2 / 32)


def test_chance_is_what_the_attack_says() -> None:
    of = case(records(6), [True] * 6)
    assert found(won(*[1] * 6), of).chance is None
    assert found(won(*[1] * 6, chance=0.1), of).chance == 0.1


def test_a_text_of_two_owners_is_on_neither_side() -> None:
    """u0, trained on, and u3, not, have one text."""
    secrets = records(6)
    for slot in (0, 1):
        secrets[6 + slot] = Secret("record", "", "text 0", "", None, 1, "u3", slot)
    one = found(won(*[1] * 6), case(secrets, [True] * 3 + [False] * 3))
    assert (one.k, one.interval.n) == (2, 2)
    assert one.control is not None and (one.control.k, one.control.n) == (2, 2)


def test_a_name_of_two_owners_is_on_neither_side_whatever_stands_before_it() -> None:
    secrets = [
        Secret("name", f"{before} ", name, ".", None, 2, f"u{i}", slot)
        for i, (before, name) in enumerate([("I am", "Ann Lee"), ("Ben", "Orr"), ("Is", "Ann Lee")])
        for slot in (0, 1)
    ]
    one = found(won(1, 1, 1), case(secrets, [True, True, False]))
    assert (one.k, one.interval.n) == (1, 1)
    assert one.control is None


def test_a_space_of_one_value_compares_nobody() -> None:
    secrets = [
        Secret("code", "#", "7", ".", Space((("7",),)), 1, f"u{i}", slot)
        for i in range(8)
        for slot in (0, 1)
    ]
    one = found(won(*[1] * 8), case(secrets, [True] * 4 + [False] * 4))
    assert (one.interval.value, one.control) == (None, None)
    assert one.epsilon_lower is not None and one.epsilon_lower.value == 0.0


@pytest.mark.parametrize("present", [[True] * 6, [False] * 6])
def test_one_side_alone_is_counted(present: list[bool]) -> None:
    one = found(won(1, 1, 0, 0, 0, 0), case(records(6), present))
    assert (one.k, one.interval.n) == ((2, 6) if present[0] else (0, 0))
    assert (one.control is None) == present[0]
    assert one.p_value == six(2 / 4)  # both coins fell alike, on either side


@pytest.mark.parametrize("owners", [0, 1])
def test_fewer_than_two_owners_show_no_epsilon(owners: int) -> None:
    one = found(won(*[1] * owners), case(records(owners), [True] * owners))
    assert (one.epsilon_lower, one.power.largest_epsilon) == (None, None)
    assert one.p_value == (None if owners == 0 else 1.0)


@pytest.mark.parametrize(
    ("owners", "tests", "tested"),
    [(5, 1, False), (6, 1, True), (6, 2, False), (9, 12, True), (9, 13, False)],
)
def test_so_few_coins_that_none_could_convince_are_not_tested(
    owners: int, tests: int, tested: bool
) -> None:
    """2·2^−5 = 0.0625 against 0.05, 2·2^−6 against 0.025, 2·2^−9 = 0.0039 against 0.0038."""
    given, present = won(*[1] * owners), [True] * owners
    one = found(given, case(records(owners), present, tests=tests))
    assert one.p_value == one.least_p == 2 * 0.5**owners
    assert (one.least_p * tests < 0.05) == tested


@pytest.mark.parametrize("present", [0, 1, 29, 30])
@pytest.mark.parametrize("same", [0.0, 1.0])
def test_all_alike_shows_no_epsilon_however_coins_fell(present: int, same: float) -> None:
    for seed in range(20):
        of = case(records(30), [i < present for i in range(30)], seed=seed)
        bound = found(won(*[same] * 30), of).epsilon_lower
        assert bound is not None and bound.value == 0.0


def test_all_guesses_right_gives_the_closed_form_of_epsilon() -> None:
    """30 owners, 20 guesses: q^20 = 0.05; with δ, q^20 + 60 δ max P[20 > W ≥ 20 − i]/i = 0.05."""
    present = [i < 15 for i in range(30)]
    given, q = won(*[float(p) for p in present]), 0.05 ** (1 / 20)
    one = found(given, case(records(30), present))
    assert one.epsilon_lower is not None and one.epsilon_lower.guesses[-1] == (20, 20)
    assert one.epsilon_lower.value == six(math.log(q / (1 - q)))
    assert one.power.largest_epsilon == six(one.epsilon_lower.value)
    of_four = found(given, case(records(30), present, claim_tests=4)).power.largest_epsilon
    q = (0.05 / 4) ** (1 / 20)  # a claim must be refuted at the level that it is tested at
    assert of_four == six(math.log(q / (1 - q)))
    less = found(given, case(records(30), present, delta=1e-3)).epsilon_lower
    assert less is not None
    law = binom(20, 1 / (1 + math.exp(-less.value)))
    most = max((law.sf(19 - i) - law.sf(19)) / i for i in range(1, 21))
    assert law.sf(19) + 60 * 1e-3 * most == pytest.approx(0.05, rel=1e-4)


def test_scores_of_probabilities_are_stronger_than_samples() -> None:
    of = case(records(6), [True] * 6, access=Access.GENERATE)
    assert found(won(*[1] * 6), of).stronger_than_release
    assert not found(won(*[1] * 6), case(records(6), [True] * 6)).stronger_than_release


# --- releases that know nothing, and releases that know exactly so much


@repeats(120, 2000)
@pytest.mark.parametrize("easy", [0.05, 0.5, 0.95])
def test_easy_secrets_are_rarely_taken_for_a_leak(easy: float, runs: int) -> None:
    """Some secrets are guessed by anybody, each slot by itself, and some are not reached."""
    generator = np.random.default_rng(int(100 * easy))
    secrets, leaks, shown = records(16), 0, 0
    for run in range(runs):
        values = (generator.random(32) < easy).astype(float)
        reached = int(generator.integers(20, 33))
        values[reached:] = NAN
        of = case(secrets, (generator.random(16) < 0.5).tolist(), seed=run)
        one = found(Successes("verbatim", "x", values, easy), of)
        assert one.epsilon_lower is not None and one.epsilon_lower.m == reached // 2
        leaks += one.p_value is not None and one.p_value <= 0.05
        shown += one.epsilon_lower.value > 0
    assert max(leaks, shown) <= binom.ppf(0.999, runs, 0.05)
    assert leaks > 0.005 * runs or easy < 0.1


@repeats(30, 200)
@pytest.mark.parametrize("epsilon", [1.0, *more(0.5, 2.0)])
def test_randomised_response_on_coins_is_bounded_from_below_and_closely(
    epsilon: float, runs: int
) -> None:
    m, bounds = 300, []
    secrets, generator = records(m), np.random.default_rng(int(10 * epsilon))
    for run in range(runs):
        present = generator.random(m) < 0.5
        told = present ^ (generator.random(m) < 1 / (1 + math.exp(epsilon)))
        of = case(secrets, present.tolist(), delta=1e-6, seed=run)
        bound = found(won(*told.astype(float)), of).epsilon_lower
        assert bound is not None
        bounds.append(bound.value)
    assert np.mean(np.array(bounds) > epsilon) <= binom.ppf(0.999, runs, 0.05) / runs
    assert np.median(bounds) == pytest.approx(median_bound(m, epsilon), abs=0.1)
