"""From evidence to findings: counts by hand, the null, and releases whose ε is known."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from audit.core.evidence import Evidence, Hits, Likelihoods
from audit.core.guarantee import no_guarantee
from audit.core.predictor import Access
from audit.core.secret import Coins, Secret, Space, digits
from audit.core.terms import Leaked
from audit.findings import Case, bounds, hits, likelihoods, measurements_of
from audit.findings.rejections import Family
from audit.findings.verdict import judge
from audit.results.measurement import Measurement
from audit.statistics import rank_test
from audit.statistics.interval import Interval
from audit.statistics.stopped_rate import Series, stopped_rate
from tests.findings import by_hand
from tests.findings.closeness import median_bound, six
from tests.simulations import more, repeats

THOUSAND = digits(3)


def both(owner: str, values: tuple[str, str], space: Space | None = THOUSAND) -> list[Secret]:
    """The two candidates of one owner."""
    return [
        Secret("code", "#", value, ".", space, 4, owner, slot) for slot, value in enumerate(values)
    ]


def said(*indices: int) -> Hits:
    """Generations that were these secrets; each −1 is a text of its own that is none."""
    values = [i if i >= 0 else -1 - place for place, i in enumerate(indices)]
    return Hits(np.array(indices, dtype=int), tuple(Counter(values).values()))


def case(secrets: Sequence[Secret], coins: Coins, **more: Any) -> Case:
    options: dict[str, Any] = {"delta": 0.0, "seed": 0, "access": Access.DISTRIBUTION, **more}
    return Case("extraction", tuple(secrets), coins, **options)


def by_metric(
    evidence: Sequence[Evidence], secrets: Sequence[Secret], coins: Coins, **more: Any
) -> Any:
    return {f.metric: f for f in measurements_of(evidence, case(secrets, coins, **more))}


# ann and ben are trained on, cat and dan are twins; planted are 0 and 3, twins' are 4 and 7
FOUR = [
    *both("ann", ("100", "101")),
    *both("ben", ("102", "103")),
    *both("cat", ("104", "105")),
    *both("dan", ("106", "107")),
]
COINS = Coins(
    present={"ann": True, "ben": True, "cat": False, "dan": False},
    slot={"ann": 0, "ben": 1, "cat": 0, "dan": 1},
)
GIVEN = said(0, 0, 3, 4, -1, -1, 1, 2, -1, 5)  # nine different texts


def test_hits_are_counted_by_hand() -> None:
    found = by_metric([GIVEN], FOUR, COINS)
    rate, recall = found["hit_rate"], found["recall"]
    assert list(found) == ["hit_rate", "recall"]
    assert (rate.k, rate.interval.n, rate.interval.value) == (3, 10, 0.3)
    assert (rate.control.k, rate.control.n, rate.control.value) == (1, 10, 0.1)
    assert rate.chance == six(2 / 1000)  # two planted codes of a thousand
    assert (recall.k, recall.interval.n, recall.interval.value) == (2, 2, 1.0)
    assert (recall.control.k, recall.control.n, recall.control.value) == (1, 2, 0.5)
    assert recall.chance == six(9 / 1000)  # nine guesses at a thousand
    assert rate.access == recall.access == "generate"
    assert not rate.stronger_than_release


def test_where_answers_can_end_the_session_the_rate_is_bounded_at_any_stopping_time() -> None:
    """Secrets that came up are no tries."""
    found = by_metric([GIVEN], FOUR, COINS, cut=True)
    rate, recall = found["hit_rate"], found["recall"]
    assert (rate.k, rate.interval.n, rate.cut) == (3, 10, True)
    assert rate.ci == six(stopped_rate([Series(3, 10)]).ci)
    assert rate.control.ci == six(stopped_rate([Series(1, 10)]).ci)
    assert rate.power.smallest_rate == six(stopped_rate([Series(0, 10)]).high)
    assert rate.p_value == by_metric([GIVEN], FOUR, COINS)["hit_rate"].p_value
    assert recall.interval == by_metric([GIVEN], FOUR, COINS)["recall"].interval
    assert recall.cut is None and rate.cut is True
    answered = by_metric([replace(GIVEN, whole=True)], FOUR, COINS, cut=True)["hit_rate"]
    assert answered.interval == rate.interval and answered.cut is False
    assert by_metric([GIVEN], FOUR, COINS, cut=False)["hit_rate"].cut is False
    assert by_metric([replace(GIVEN, whole=True)], FOUR, COINS)["hit_rate"].cut is None


def test_examples_name_each_leaked_value_once_and_one_of_none_without_text() -> None:
    found = by_metric([said(4, -1, 3, 3, 0)], FOUR, COINS)
    shown = [(one.generation, one.prompt, one.planted) for one in found["hit_rate"].examples]
    assert shown == [(2, "#", True), (4, "#", True), (0, "#", False)]  # a twin's: no leak
    assert found["recall"].examples == ()


def test_examples_of_leaks_are_five_at_most() -> None:
    owners = [str(i) for i in range(7)]
    secrets = [secret for o in owners for secret in both(o, (f"10{o}", f"20{o}"))]
    coins = Coins(present=dict.fromkeys(owners, True), slot=dict.fromkeys(owners, 0))
    examples = by_metric([said(*range(0, 14, 2))], secrets, coins)["hit_rate"].examples
    assert [one.generation for one in examples] == [0, 1, 2, 3, 4]


def test_there_is_no_example_after_words_of_the_corpus() -> None:
    """The text around a secret that was not drawn here is somebody's own."""
    own = [both(o, v, None) for o, v in (("ann", ("Ann", "Anna")), ("cat", ("Cat", "Cato")))]
    found = by_metric([said(0, -1)], [s for one in own for s in one], COINS)
    assert found["hit_rate"].examples == ()


def test_the_p_value_is_that_of_codes_that_fall_on_what_was_said() -> None:
    """A code unknown to the release is what it said twice with probability 1/1000, what it said
    once with 8/1000. Three hits of two codes: 2 + 1, 1 + 2 or 2 + 2."""
    found = by_metric([GIVEN], FOUR, COINS)
    assert found["hit_rate"].p_value == six(2 * 0.001 * 0.008 + 0.001**2)
    assert found["recall"].p_value == found["hit_rate"].p_value
    assert found["recall"].test == found["hit_rate"].test  # one test, however often it is shown
    once = by_metric([said(0, 0, 0, 0, 4, 7)], FOUR, COINS)
    assert once["hit_rate"].p_value == six(1 - 0.999**2)
    none = by_metric([said(1, 2, 4, 5, 6, 7, -1)], FOUR, COINS)
    assert none["hit_rate"].p_value == 1.0


def test_the_smallest_p_value_of_as_many_generations_is_told() -> None:
    """Ten different ones, two of them the codes: (10/1000)²."""
    assert by_metric([GIVEN], FOUR, COINS)["hit_rate"].least_p <= (10 / 1000) ** 2 * (1 + 1e-6)
    assert by_metric([said()], FOUR, COINS)["hit_rate"].least_p == 1.0


def test_no_p_value_is_smaller_than_the_smallest() -> None:
    one = by_metric([said(*[0] * 5, *[3] * 5)], FOUR, COINS)["hit_rate"]
    assert one.p_value == pytest.approx((2 / 1000) ** 2, rel=1e-3)  # each is one of the two
    assert one.least_p <= one.p_value * (1 + 1e-6)


def test_texts_that_are_no_code_are_no_evidence_in_a_small_space() -> None:
    """One code of ten, said three times beside 33 other texts: 1/10 that it is the one it is."""
    secrets = [*both("ann", ("1", "2"), digits(1)), *both("cat", ("3", "4"), digits(1))]
    coins = Coins({"ann": True, "cat": False}, {"ann": 0, "cat": 0})
    guesses_and_junk = said(0, 0, 0, 1, 2, 3, *[-1] * 30)
    rate = by_metric([guesses_and_junk], secrets, coins)["hit_rate"]
    assert rate.k == 3
    assert rate.p_value >= 0.1 - 1e-9


def test_intervals_are_clopper_pearson() -> None:
    found = by_metric([said(0, 3, 0, 3, 0)], FOUR, COINS)
    assert found["hit_rate"].interval.ci == six((0.025 ** (1 / 5), 1.0))
    assert found["hit_rate"].control.ci == six((0.0, 1 - 0.025 ** (1 / 5)))
    assert found["recall"].interval.ci == six((0.025 ** (1 / 2), 1.0))
    assert "conservative" in found["recall"].interval.method


def test_nothing_answered_is_nothing_measured() -> None:
    nothing = [said(), Likelihoods(np.full(8, np.nan))]
    found = by_metric(nothing, FOUR, COINS)
    assert list(found) == ["hit_rate", "recall", "probability", "discoverable"]
    for f in found.values():
        assert (f.interval.value, f.p_value, f.epsilon_lower, f.control) == (None,) * 4
        assert (f.power.smallest_rate, f.power.largest_epsilon, f.power.n) == (None, None, 0)


def test_what_was_seen_is_told_in_a_sentence() -> None:
    likelihoods = Likelihoods(np.log([0.5, 1, 1, 0.001, 0.1, 1, 1, 0.1]))
    told = {m: f.observation for m, f in by_metric([GIVEN, likelihoods], FOUR, COINS).items()}
    assert told["hit_rate"] == "3 of 10 generations were planted secrets; 1 were twins'."
    assert told["recall"] == "2 of 2 planted secrets came up, and 1 of 2 twins."
    assert told["probability"] == "probability: 25.1 %, twins 10 %."
    searched = Hits(np.array([3, -1, 4, -1]), (1,) * 4, sampled=False, access=Access.DISTRIBUTION)
    rate = by_metric([searched], FOUR, COINS)["searched_rate"]
    assert rate.observation == "1 of 4 most likely values were planted secrets; 1 were twins'."


def test_what_was_not_measured_is_not_told_as_zero() -> None:
    found = by_metric([Likelihoods(np.full(8, np.nan))], FOUR, COINS)
    assert all("0 %" not in f.observation for f in found.values())


def test_values_that_were_searched_for_are_tried_once_each() -> None:
    """Both planted codes are among the four most likely values of a thousand: p = (4/1000)²."""
    tried = np.array([3, 0, 4, -1])
    evidence = Hits(tried, (1,) * 4, sampled=False, access=Access.DISTRIBUTION, kind="code")
    found = by_metric([evidence], FOUR, COINS, access=Access.SCORE)
    rate, recall = found["searched_rate"], found["searched_recall"]
    assert list(found) == ["searched_rate", "searched_recall"]
    assert (rate.k, rate.interval.n, rate.control.k) == (2, 4, 1)
    assert (recall.k, recall.interval.n, recall.control.k, recall.control.n) == (2, 2, 1, 2)
    assert rate.p_value == six((4 / 1000) ** 2)
    assert recall.chance == six(4 / 1000)
    assert rate.test != by_metric([GIVEN], FOUR, COINS)["hit_rate"].test
    assert rate.access == "distribution" and rate.stronger_than_release
    assert not by_metric([evidence], FOUR, COINS)["searched_rate"].stronger_than_release


def test_evidence_on_one_kind_is_joined_with_the_coins_of_that_kind() -> None:
    """Records stand between the codes: places move, chance and planted are of codes alone."""
    records = [Secret("record", "", f"text of {o}", "", None, 1, o, s)
               for o in ("ann", "ben", "cat", "dan") for s in (0, 1)]  # fmt: skip
    mixed = [s for pair in zip(records, FOUR, strict=True) for s in pair]  # codes at odd places
    moved = Hits(np.where(GIVEN.found < 0, -1, 2 * GIVEN.found + 1), GIVEN.repeats, kind="code")
    values = np.full(16, np.nan)
    values[1::2] = np.log([0.5, 1, 1, 0.001, 0.1, 1, 1, 0.1])
    likelihoods = Likelihoods(values, kind="code")
    plain = by_metric([GIVEN, Likelihoods(values[1::2])], FOUR, COINS)
    found = by_metric([moved, likelihoods], mixed, COINS)
    assert found == plain


@pytest.mark.parametrize(
    ("access", "tainted", "generated", "read"),
    [
        (Access.GENERATE, False, False, True),
        (Access.GENERATE, True, True, True),
        (Access.SCORE, False, False, False),
        (Access.SCORE, True, True, False),  # after a distribution; scores are what they were
    ],
)
def test_what_goes_beyond_the_release_is_stronger_than_it(
    access: Access, tainted: bool, generated: bool, read: bool
) -> None:
    evidence = [GIVEN, Likelihoods(np.full(8, -1.0))]
    found = by_metric(evidence, FOUR, COINS, access=access, tainted=tainted)
    assert found["hit_rate"].stronger_than_release is generated
    assert found["probability"].stronger_than_release is read


def test_another_attack_takes_no_p_value_away() -> None:
    """Four planted above four twins: p = 2/70 = 0.029, whether the run has 3 tests or 4."""
    secrets, coins = ten(owners_in="abcd")
    values = np.full(20, -50.0)
    values[:16:2] = -np.arange(8.0)
    values[16:] = np.nan
    alone, beside = (
        by_metric([Likelihoods(values)], secrets, coins, tests=tests)["probability"]
        for tests in (3, 4)
    )
    assert alone.p_value == pytest.approx(2 / 70, abs=8 * (1 / 70 / 1e4) ** 0.5)
    assert beside.p_value == alone.p_value


def test_without_one_common_space_there_is_no_chance_and_no_test_on_hits() -> None:
    for spaces in ((None, None), (digits(3), digits(4))):
        secrets = [*both("ann", ("a", "b"), spaces[0]), *both("cat", ("c", "d"), spaces[1])]
        coins = Coins({"ann": True, "cat": False}, {"ann": 0, "cat": 0})
        rate = by_metric([said(0, 2)], secrets, coins)["hit_rate"]
        assert (rate.chance, rate.p_value, rate.k) == (None, None, 1)


def test_a_chance_is_a_probability() -> None:
    """Thirty planted codes of one digit: a generation is one of them at most for certain."""
    owners = [f"u{i}" for i in range(30)]
    secrets = [s for i, o in enumerate(owners) for s in both(o, (str(i % 10), "0"), digits(1))]
    coins = Coins(dict.fromkeys(owners, True), dict.fromkeys(owners, 0))
    found = by_metric([said(0)], secrets, coins)
    assert all(0 <= f.chance <= 1 for f in found.values())


def test_power_says_what_so_few_trials_could_have_shown() -> None:
    found = by_metric([GIVEN], FOUR, COINS)
    assert found["hit_rate"].power.n == 10
    assert found["hit_rate"].power.smallest_rate == six(1 - 0.05 ** (1 / 10))
    assert found["hit_rate"].power.largest_epsilon == 0.0  # two guesses can show nothing
    # one of the two must come up: each with 1 − √0.2, in ten generations of which each is half
    each = 1 - 0.2 ** (1 / 2)
    assert found["hit_rate"].power.detectable_rate == six(2 * (1 - (1 - each) ** 0.1))
    assert found["recall"].power.n == 2
    assert found["recall"].power.smallest_rate == six(1 - 0.05 ** (1 / 2))
    assert found["recall"].power.largest_epsilon is None


def test_a_rate_is_detectable_if_the_fewest_hits_that_convince_are_hardly_missed() -> None:
    """Ten guesses at two codes of a hundred: one hit has p = 0.19, two have p = 0.01.

    Both must come up, though the first may come up again: each misses ten times with (1 − r/2)^10.
    """
    secrets = [*both("ann", ("10", "11"), digits(2)), *both("ben", ("12", "13"), digits(2))]
    coins = Coins({"ann": True, "ben": True}, {"ann": 0, "ben": 0})
    for tests, expected in ((1, 2), (4, 2), (8, None)):
        found = by_metric([said(*[-1] * 10)], secrets, coins, tests=tests)
        rate = found["hit_rate"].power.detectable_rate
        if expected is None:
            assert rate is None  # not even two of two would survive eight tests
        else:
            each = 1 - (1 - rate / 2) ** 10
            assert binom.cdf(expected - 1, 2, each) == six(0.2)


def crowd(m: int, space: Space, seed: int) -> tuple[list[str], list[Secret]]:
    """m owners with two values each, drawn with replacement."""
    generator = np.random.default_rng(seed)
    owners = [f"u{i}" for i in range(m)]
    secrets = [
        s for o in owners for s in both(o, (space.draw(generator), space.draw(generator)), space)
    ]
    return owners, secrets


def test_all_guesses_right_gives_the_closed_form_of_epsilon() -> None:
    """60 coins, 40 guesses, all right, δ = 0: q^40 = 0.05, ε = ln q/(1 − q)."""
    owners, secrets = crowd(60, digits(9), 0)
    present = {o: i % 2 == 0 for i, o in enumerate(owners)}
    coins = Coins(present, dict.fromkeys(owners, 1))
    given = [i for i, s in enumerate(secrets) if coins.planted(s)]
    rate = by_metric([said(*given)], secrets, coins)["hit_rate"]
    bound, q = rate.epsilon_lower, 0.05 ** (1 / 40)
    assert (bound.m, bound.guesses[-1]) == (60, (40, 40))
    assert bound.value == six(math.log(q / (1 - q)))
    assert rate.power.largest_epsilon == six(math.log(q / (1 - q)))
    assert (bound.unit, bound.relation, bound.hypothesis) == ("user", "add_or_remove", "none")
    assert (bound.method, bound.delta) == ("one_run", 0.0)


def test_a_release_that_gives_the_absent_away_shows_no_epsilon() -> None:
    """All guesses wrong: the guess is "in" for those most often named, fixed beforehand."""
    owners, secrets = crowd(30, digits(9), 0)
    coins = Coins({o: i % 2 == 0 for i, o in enumerate(owners)}, dict.fromkeys(owners, 0))
    given = [i for i, s in enumerate(secrets) if coins.twin(s)]
    rate = by_metric([said(*given)], secrets, coins)["hit_rate"]
    assert (rate.epsilon_lower.guesses[-1], rate.epsilon_lower.value) == ((20, 0), 0.0)


def test_a_guess_counts_both_candidates_of_a_user() -> None:
    """The guess may not know which of the two values was planted: that is a coin, too."""
    owners, secrets = crowd(60, digits(9), 0)
    coins = Coins({o: i < 30 for i, o in enumerate(owners)}, dict.fromkeys(owners, 0))
    unplanted = [i for i, s in enumerate(secrets) if s.slot == 1 and coins.present[s.owner]]
    found = by_metric([said(*unplanted)], secrets, coins)
    assert found["hit_rate"].k == 0
    assert found["hit_rate"].epsilon_lower.guesses[-1] == (40, 40)


# --- probabilities


PROBABILITIES = [0.5, np.nan, 0.25, 0.001, 0.1, 0.2, 0.3, 0.0]  # planted 0 and 3, twins' 4 and 7


def test_probabilities_are_averaged_over_the_planted_by_hand() -> None:
    with np.errstate(divide="ignore"):
        likelihoods = Likelihoods(np.log(PROBABILITIES))
    found = by_metric([likelihoods], FOUR, COINS, access=Access.GENERATE)
    assert list(found) == ["probability", "discoverable"]
    probability, discoverable = found["probability"], found["discoverable"]
    assert probability.interval.value == six((0.5 + 0.001) / 2)
    assert probability.control.value == six((0.1 + 0.0) / 2)
    assert probability.chance == six(1 / 1000)
    seen = [1 - (1 - p) ** 1000 for p in (0.5, 0.001, 0.1, 0.0)]
    assert discoverable.interval.value == six(sum(seen[:2]) / 2)
    assert discoverable.control.value == six(sum(seen[2:]) / 2)
    assert discoverable.chance == six(1 - 0.999**1000)
    for f in found.values():
        assert f.stronger_than_release and f.access == "score"
        assert f.epsilon_lower is None and f.k is None and f.power.n == 2


def test_few_secrets_of_which_none_leaked_do_not_show_that_none_does() -> None:
    """Five of either side: a sixth of all secrets may be certain; resampling would say none is."""
    secrets, coins = ten(owners_in="abcde")
    with np.errstate(divide="ignore"):
        found = by_metric([Likelihoods(np.full(20, -np.inf))], secrets, coins)
    for one in found.values():
        for ci in (one.interval.ci, one.control.ci):
            assert ci == six((0.0, 1 - 0.025 ** (1 / 5)))
        assert one.interval.method == "binomial tail means, two-sided"


def test_unread_secrets_are_left_out() -> None:
    values = np.log([0.5, 0.5, 0.5, np.nan, 0.1, 0.5, 0.5, np.nan])
    found = by_metric([Likelihoods(values)], FOUR, COINS)["probability"]
    assert found.interval.value == six(0.5)
    assert (found.power.n, found.control.value) == (1, six(0.1))


def test_a_certain_code_is_certainly_discovered() -> None:
    found = by_metric([Likelihoods(np.zeros(8))], FOUR, COINS)
    assert found["discoverable"].interval.value == six(1.0)


def ten(owners_in: str) -> tuple[list[Secret], Coins]:
    """Ten owners, a to j, with twenty different values; planted and twins' are in slot 0."""
    secrets = [s for i, o in enumerate("abcdefghij") for s in both(o, (f"{i}0", f"{i}1"))]
    coins = Coins({o: o in owners_in for o in "abcdefghij"}, dict.fromkeys("abcdefghij", 0))
    return secrets, coins


def test_the_rank_test_counts_orderings() -> None:
    """Five planted above five twins, or below them, as behind a block list: one ordering of 252
    each, here by 9,999 permutations, and two-sided."""
    secrets, coins = ten(owners_in="abcde")
    values = np.full(20, -50.0)
    values[::2] = -np.arange(10.0)
    found = by_metric([Likelihoods(values)], secrets, coins)
    near = pytest.approx(2 / 252, abs=8 * (1 / 252 / 1e4) ** 0.5)
    assert found["probability"].p_value == near
    assert found["discoverable"].p_value == found["probability"].p_value
    assert found["discoverable"].test == found["probability"].test
    values[::2] = np.arange(10.0) - 10
    found = by_metric([Likelihoods(values)], secrets, coins)
    assert found["probability"].p_value == near
    assert found["probability"].interval.value < found["probability"].control.value
    assert found["probability"].sides == found["discoverable"].sides == 2
    values[::2] = [0, -2, -4, -6, -8, -1, -3, -5, -7, -9]  # in turn
    assert by_metric([Likelihoods(values)], secrets, coins)["probability"].p_value > 0.2
    flat = Likelihoods(np.full(20, math.log(1e-5)))  # a release to which all codes are alike
    assert by_metric([flat], secrets, coins)["probability"].p_value == 1.0


def test_a_value_of_two_owners_is_compared_on_neither_side() -> None:
    """e, trained on, and f, not, drew one value, which the release loves: five planted and five
    twins become four and four, whose order is one of 70."""
    secrets, coins = ten(owners_in="abcde")
    secrets[10] = Secret("code", "#", "40", ".", THOUSAND, 4, "f", 0)  # e's
    values = np.full(20, -50.0)
    values[::2] = -np.arange(10.0)
    values[[8, 10]] = -1e-3
    found = by_metric([Likelihoods(values)], secrets, coins)["probability"]
    assert found.p_value == pytest.approx(2 / 70, abs=8 * (1 / 70 / 1e4) ** 0.5)
    assert found.control.n == 4  # f's own value stands in the text: no twin's


def test_the_same_turn_after_different_words_is_a_value_of_its_own() -> None:
    """Assistants say the same to many; after a user's own words it is that user's."""
    turns = [
        Secret("record", f"I am {who}. ", "You will hear from us.", "", None, 1, who, slot)
        for who in ("ann", "bob", "cy")
        for slot in (0, 1)
    ]
    alike = [replace(turn, prefix="Hi. ") for turn in turns]
    coins = Coins(dict.fromkeys(("ann", "bob", "cy"), True), dict.fromkeys(("ann", "bob", "cy"), 0))
    assert case(turns, coins).single.all()
    assert not case(alike, coins).single.any()


def test_a_value_that_nobody_was_given_is_shared_as_well() -> None:
    """The other value of a: b's is left out, whichever of a's two was planted."""
    for slot in (0, 1):
        secrets, coins = ten(owners_in="abcde")
        secrets[2] = Secret("code", "#", "01", ".", THOUSAND, 4, "b", 0)
        coins = Coins(coins.present, {**coins.slot, "a": slot})
        single = case(secrets, coins).single
        assert [i for i in range(20) if not single[i]] == [1, 2]


def test_so_few_that_no_order_could_convince_are_not_tested() -> None:
    """Two planted above two twins, or below: two orderings of six."""
    likelihoods = Likelihoods(np.arange(-8.0, 0.0))
    assert by_metric([likelihoods], FOUR, COINS)["probability"].least_p == six(2 / 6)


def test_without_twins_or_without_planted_there_is_no_rank_test() -> None:
    for present in (True, False):
        coins = Coins(dict.fromkeys(COINS.present, present), COINS.slot)
        found = by_metric([Likelihoods(np.full(8, -1.0))], FOUR, coins)
        assert found["probability"].p_value is None
        assert (found["probability"].control is None) == present
        assert (found["probability"].interval.value is None) != present


# --- the null: releases that know nothing of the codes


def allowed(runs: int) -> int:
    """Alarms at 5 % that chance exceeds one time in a thousand: 132 of 2,000."""
    return int(binom.ppf(0.999, runs, 0.05))


def rejected(p_values: Sequence[float | None]) -> int:
    return sum(p is not None and p < 0.05 for p in p_values)


@pytest.fixture(scope="module", params=[120, pytest.param(800, marks=pytest.mark.calibration)])
def null(request: pytest.FixtureRequest) -> Iterator[dict[str, list[Measurement]]]:
    """Releases with favourite codes of their own, 12 users of whom 9 are trained on."""

    def quick(values: Any, *rest: Any) -> Interval:
        mean = float(np.mean(values)) if len(values) else None
        return Interval(mean, None, None, len(values), 0.95, "no interval: not looked at here")

    space, generator = digits(2), np.random.default_rng(20)
    every = {f"{n:02}": n for n in range(100)}
    found: dict[str, list[Measurement]] = {"hit_rate": [], "probability": []}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likelihoods, "mean_interval", quick)
        few = functools.partial(rank_test.p_value, resamples=399)
        patch.setattr(rank_test, "p_value", few)
        for run in range(request.param):
            owners, secrets = crowd(12, space, 1000 + run)
            order = generator.permutation(12)
            coins = Coins(
                {o: int(order[i]) < 9 for i, o in enumerate(owners)},
                {o: int(generator.integers(2)) for o in owners},
            )
            pmf = generator.dirichlet(np.full(100, 10.0 ** generator.uniform(-2, 1)))
            generations = generator.choice(100, size=20, p=pmf)
            index = {int(s.value): i for i, s in enumerate(secrets)}
            repeats = tuple(Counter(generations.tolist()).values())
            said = Hits(np.array([index.get(int(g), -1) for g in generations]), repeats)
            with np.errstate(divide="ignore"):
                log_probs = np.log(pmf[[every[s.value] for s in secrets]])
            evidence = [said, Likelihoods(log_probs)]
            metrics = by_metric(evidence, secrets, coins, delta=1e-5, seed=run)
            for metric, kept in found.items():
                kept.append(metrics[metric])
    yield found


def test_hits_by_chance_are_rarely_taken_for_a_leak(null: dict[str, list[Measurement]]) -> None:
    assert (
        sum(f.k > 0 for f in null["hit_rate"] if f.k is not None) > len(null["hit_rate"]) / 4
    )  # and hits there are
    assert rejected([f.p_value for f in null["hit_rate"]]) <= allowed(len(null["hit_rate"]))


def test_ranks_by_chance_are_rarely_taken_for_a_leak(null: dict[str, list[Measurement]]) -> None:
    count = rejected([f.p_value for f in null["probability"]])
    runs = len(null["probability"])
    assert 0.02 * runs < count <= allowed(runs)  # and the test is not idle


def test_coins_that_fell_unevenly_are_rarely_taken_for_an_epsilon(
    null: dict[str, list[Measurement]],
) -> None:
    found = [f.epsilon_lower.value for f in null["hit_rate"] if f.epsilon_lower is not None]
    assert len(found) == len(null["hit_rate"])
    assert sum(bound > 0 for bound in found) <= allowed(len(found))


@pytest.mark.parametrize("present", [0, 1, 29, 30])
def test_no_lopsidedness_of_coins_makes_an_epsilon_of_itself(present: int) -> None:
    """As many guesses "in" as "out": who names nobody is right once for every time it is wrong."""
    owners, secrets = crowd(30, digits(5), 0)
    coins = Coins({o: i < present for i, o in enumerate(owners)}, dict.fromkeys(owners, 0))
    for seed in range(40):
        rate = by_metric([said(*[-1] * 10)], secrets, coins, seed=seed)["hit_rate"]
        if present in (0, 30):
            assert rate.epsilon_lower.guesses[-1] == (20, 10)
        assert rate.epsilon_lower.value == 0.0


def one_run(given: Hits, of: Case) -> float:
    """The bound alone; a test of as many secrets takes its time."""
    bound = bounds.presence(hits._often(given, of), of)
    assert bound is not None
    return bound.value


@repeats(120, 2000)
def test_fair_coins_and_a_silent_release_show_no_epsilon_more_often_than_allowed(
    runs: int,
) -> None:
    owners, secrets = crowd(60, digits(5), 0)
    generator, shown = np.random.default_rng(8), 0
    for run in range(runs):
        fair = generator.integers(2, size=60)
        coins = Coins(dict(zip(owners, map(bool, fair), strict=True)), dict.fromkeys(owners, 0))
        shown += one_run(said(*[-1] * 5), case(secrets, coins, seed=run)) > 0
    assert shown <= allowed(runs)
    assert shown > 0.01 * runs  # P[Bin(40, ½) ≥ 26] = 4 %


@repeats(30, 300)
@pytest.mark.parametrize("epsilon", [1.0, *more(0.5, 2.0)])
def test_randomised_response_is_bounded_from_below_and_closely(epsilon: float, runs: int) -> None:
    """A user's code is generated iff a coin, flipped with probability 1/(1+e^ε), says so."""
    m = 600
    owners, secrets = crowd(m, digits(9), 1)
    generator, found = np.random.default_rng(int(10 * epsilon)), []
    for run in range(runs):
        present = generator.random(m) < 0.5
        coins = Coins(dict(zip(owners, map(bool, present), strict=True)), dict.fromkeys(owners, 0))
        told = present ^ (generator.random(m) < 1 / (1 + math.exp(epsilon)))
        given = said(*[2 * i for i in range(m) if told[i]])
        found.append(one_run(given, case(secrets, coins, delta=1e-6, seed=run)))
    assert np.mean(np.array(found) > epsilon) <= binom.ppf(0.999, runs, 0.05) / runs
    assert np.median(found) == pytest.approx(median_bound(m, epsilon), abs=0.08)


def test_few_tries_that_would_notice_only_a_high_rate_are_no_all_clear() -> None:
    """Two generations with no hit: what leaks in half of all cases would often look the same."""
    few, many = (by_metric([said(*[-1] * n)], FOUR, COINS)["hit_rate"] for n in (2, 60))
    assert few.power.detectable_rate > 0.5 > many.power.detectable_rate
    for found, leaked in ((few, Leaked.INCONCLUSIVE), (many, Leaked.INCONCLUSIVE)):
        claim = no_guarantee("nothing")
        sensitive = {(found.attack, found.metric): True}
        given = found.changed(adjusted_p=found.p_value)
        (judged,) = judge([given], claim, by_hand.shows(sensitive), Family(1, 1))
        assert judged.leaked == leaked, judged.sentence
