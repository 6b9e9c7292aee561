"""What holds for evidence of every kind, joined with the coins: counts, bounds and what is open."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.core.evidence import Evidence, Hits, Likelihoods, Mentions, Ranks, Scores, Successes
from audit.core.guarantee import no_guarantee
from audit.core.predictor import Access
from audit.findings import Case, measurements_of
from audit.results.measurement import Measurement
from audit.statistics import nested_guesses
from audit.statistics.stopped_rate import Series, stopped_rate
from tests.findings.by_hand import answered, promise
from tests.findings.closeness import six
from tests.findings.joined import NAN, case, codes, half, one_value

Numbers = Sequence[float]


def named(numbers: Numbers) -> list[int]:
    """The first value of each owner, as often as its number says."""
    return [2 * i for i, often in enumerate(numbers) for _ in range(int(often))]


def hits(numbers: Numbers) -> Hits:
    """And one generation that is no secret."""
    found = [*named(numbers), -1]
    return Hits(np.array(found, dtype=int), tuple(Counter(found).values()))


def mentions(numbers: Numbers) -> Mentions:
    """And one generation that names nobody."""
    each = (*((i,) for i in named(numbers)), ())
    return Mentions(each, np.full(len(each), NAN))


def twice(numbers: Numbers) -> np.ndarray:
    return np.repeat(np.array(numbers, dtype=float), 2)


def ranks(values: np.ndarray) -> Ranks:
    return Ranks(*[values] * 7, np.full(len(values), NAN))


KINDS: dict[str, Callable[[Numbers], Evidence]] = {
    "hits": hits,
    "mentions": mentions,
    "scores": lambda numbers: Scores("loss", "span", twice(numbers)),
    "successes": lambda numbers: Successes("verbatim", "share", twice(numbers), None),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def first(kind: str, numbers: Sequence[Any], of: Case) -> Measurement:
    """The measure that bounds ε by guesses of who was trained on."""
    return measurements_of([KINDS[kind](numbers)], of)[0]


def all_right(guesses: int, error: float = 0.05) -> float:
    """The ε that so many right guesses show at δ = 0: q^guesses = error."""
    q = error ** (1 / guesses)
    return math.log(q / (1 - q))


# bounds on ε


@every_kind
def test_all_guesses_right_give_the_closed_form(kind: str) -> None:
    """40 guesses over 60 owners; a claim must be refuted at the level that it is tested at."""
    present = [i % 2 == 0 for i in range(60)]
    for tests in (1, 4):
        one = first(kind, present, case(codes(60), present, claim_tests=tests))
        assert one.power.largest_epsilon == six(all_right(40, 0.05 / tests))
        bound = one.epsilon_lower
        assert bound is not None and (bound.m, bound.guesses[-1]) == (60, (40, 40))
        assert bound.value == six(all_right(40))
        assert (bound.unit, bound.relation) == ("user", "add_or_remove")
        assert (bound.method, bound.hypothesis, bound.delta) == ("one_run", "none", 0.0)
        assert answered(one, promise(8.0)).leaked == "leak"
    bound = first(kind, present, case(codes(60), present, delta=1e-3)).epsilon_lower
    assert bound is not None and bound.delta == 1e-3
    assert bound.value == six(nested_guesses.epsilon_lower(60, bound.guesses or [], 1e-3))


@every_kind
def test_members_below_all_others_show_no_epsilon(kind: str) -> None:
    """As behind a block list: guesses were "in" beforehand, and the tests are two-sided."""
    present = half(30)
    one = first(kind, [not p for p in present], case(codes(30), present))
    assert one.epsilon_lower is not None
    assert (one.epsilon_lower.guesses[-1], one.epsilon_lower.value) == ((20, 0), 0.0)
    if kind != "hits":  # whose null are the values, not the coins
        assert one.sides == 2
        assert answered(one, no_guarantee("it is a test")).leaked == "leak"


@every_kind
@pytest.mark.parametrize("same", [0.0, 1.0])
def test_lopsided_coins_alone_show_no_epsilon(kind: str, same: float) -> None:
    """As many guesses "in" as "out": all owners alike, the last rule is right half the time."""
    for present in (0, 1, 29, 30):
        for seed in range(20):
            of = case(codes(30), [i < present for i in range(30)], seed=seed)
            bound = first(kind, [same] * 30, of).epsilon_lower
            assert bound is not None and bound.value == 0.0
            assert present in (1, 29) or bound.guesses[-1] == (20, 10)


@every_kind
@pytest.mark.parametrize("owners", [0, 1])
def test_fewer_than_two_owners_bound_nothing(kind: str, owners: int) -> None:
    one = first(kind, [1.0] * owners, case(codes(owners), [True] * owners))
    assert (one.epsilon_lower, one.power.largest_epsilon) == (None, None)


def test_better_of_both_values_stands_for_its_owner() -> None:
    """The attacker does not know which of the two was planted: that is a coin, too."""
    present = half(60)
    low_high = np.ravel([(0.0, float(p)) for p in present])
    second = np.array([2 * i + 1 for i, p in enumerate(present) if p])
    for evidence, figure in (
        (Hits(second, (1,) * len(second)), 0.0),
        (Scores("loss", "span", low_high), 0.5),
        (Successes("verbatim", "share", low_high, None), 0.0),
        (Mentions(tuple((int(i),) for i in second), np.full(len(second), NAN)), 0.0),
    ):
        one = measurements_of([evidence], case(codes(60), present))[0]
        assert one.value == figure
        assert one.epsilon_lower is not None and one.epsilon_lower.guesses[-1] == (40, 40)


# tests of coins


@pytest.mark.parametrize("kind", ["mentions", "successes"])
def test_owners_of_one_side_are_counted_with_their_coins(kind: str) -> None:
    """All coins fell alike, on either side, so that nothing can be compared."""
    for present in (True, False):
        one = first(kind, [1, 1, 0, 0, 0, 0], case(codes(6), [present] * 6))
        assert one.k == 2 * present and one.p_value == one.least_p == 1.0
        assert one.control is None or one.control.k == 2 * (not present)
        assert (one.control is None) == (present and kind == "successes")


@pytest.mark.parametrize("kind", ["mentions", "successes"])
@pytest.mark.parametrize(
    ("owners", "tests", "tested"),
    [(0, 1, False), (2, 1, False), (6, 1, False), (8, 1, True), (8, 2, False), (12, 23, True),
     (12, 24, False)],
)  # fmt: skip
def test_too_few_coins_to_convince_are_not_tested(
    kind: str, owners: int, tests: int, tested: bool
) -> None:
    """2/C(6, 3) = 0.1, 2/C(8, 4) = 0.029 against 0.025, 2/C(12, 6) = 1/462 against 0.05/23."""
    present = half(owners)
    one = first(kind, present, case(codes(owners), present, tests=tests))
    assert one.p_value == one.least_p == six(2 / math.comb(owners, owners // 2)) or owners == 0
    assert (one.least_p * tests < 0.05) == tested


# what was not measured, and what a session cut


def test_unanswered_evidence_measures_nothing() -> None:
    nothing = np.full(8, NAN)
    for evidence in (
        Hits(np.array([], dtype=int), ()),
        Likelihoods(nothing),
        Mentions((), np.array([])),
        ranks(nothing),
        Scores("loss", "span", nothing),
        Successes("verbatim", "share", nothing, None),
    ):
        found = measurements_of([evidence], case(codes(4), half(4)))
        assert found
        for one in found:
            assert (one.value, one.p_value, one.epsilon_lower, one.control) == (None,) * 4
            assert (one.power.smallest_rate, one.power.largest_epsilon) == (None, None)
            assert one.power.n == 0 and one.outcomes is None and one.exposures is None
            assert "0 %" not in one.observation  # what was not measured is not zero


@pytest.mark.parametrize(
    ("kind", "series", "twins"),
    [("hits", (3, 6), (2, 6)), ("mentions", (3, 6), (2, 6)), ("successes", (2, 3), (1, 3))],
)
def test_rate_of_a_cut_session_holds_at_any_stopping_time(
    kind: str, series: tuple[int, int], twins: tuple[int, int]
) -> None:
    """Each owner is named so often, or whether the one try works."""
    numbers = [1, 1, 0, 1, 0, 0] if kind == "successes" else [2, 1, 0, 2, 0, 0]
    plain, one, unended = (
        first(kind, numbers, case(codes(6), half(6), cut=cut)) for cut in (None, True, False)
    )
    assert (one.k, one.n) == (plain.k, plain.n) == series
    assert one.ci == six(stopped_rate([Series(*series)]).ci) != plain.ci
    assert one.control is not None and one.control.ci == six(stopped_rate([Series(*twins)]).ci)
    assert one.power.smallest_rate == six(stopped_rate([Series(0, series[1])]).high)
    assert one.p_value == plain.p_value
    assert (plain.cut, one.cut, unended.cut) == (None, True, False)


def test_evidence_read_whole_is_not_cut() -> None:
    others = np.array([1.0, 0.0, 0.0, 1.0])
    for cut, whole, expected in ((True, False, True), (True, True, False), (None, True, None)):
        of = case(codes(6), half(6), cut=cut)
        (rate, recall) = measurements_of([replace(hits([2, 1, 0]), whole=whole)], of)
        assert (rate.cut, recall.cut) == (expected, None)
        given = replace(mentions([2, 1, 0]), others=others, whole=whole)
        assert [f.cut for f in measurements_of([given], of)] == [expected] * 2


# access


GIVEN = (Access.GENERATE, Access.SCORE, Access.DISTRIBUTION)


@pytest.mark.parametrize("access", GIVEN)
@pytest.mark.parametrize("tainted", [False, True])
def test_evidence_beyond_the_release_is_stronger(access: Access, tainted: bool) -> None:
    """So are samples drawn after a reading that the release does not give."""
    values = np.zeros(8)
    for evidence, needed in (
        (hits([1, 1]), Access.GENERATE),
        (mentions([1, 1]), Access.GENERATE),
        (Likelihoods(values), Access.SCORE),
        (Successes("verbatim", "share", values, None), Access.SCORE),
        (Scores("loss", "span", values), Access.SCORE),
        (Scores("loss", "span", values, access=Access.DISTRIBUTION), Access.DISTRIBUTION),
        (ranks(np.ones(8)), Access.DISTRIBUTION),
    ):
        sampled = needed == Access.GENERATE
        for one in measurements_of(
            [evidence], case(codes(4), half(4), access=access, tainted=tainted)
        ):
            assert one.access == needed.word
            assert one.stronger_than_release == (access < needed or (sampled and tainted))


# values that several owners share


def test_space_of_one_value_compares_nobody() -> None:
    for kind in ("scores", "successes"):
        one = first(kind, [1] * 20, case(one_value(20), half(20)))
        assert (one.value, one.control) == (None, None)
        assert one.epsilon_lower is not None and one.epsilon_lower.value == 0.0
    assert one.p_value is not None  # coins of owners are compared, not values


@pytest.mark.parametrize(("kind", "compared"), [("scores", 4), ("successes", 2)])
def test_value_of_two_owners_is_on_neither_side(kind: str, compared: int) -> None:
    """u2, trained on, and u3, not, have one value: what is said of it says nothing of either."""
    secrets = codes(6)
    secrets[6:8] = [replace(secret, owner="u3") for secret in secrets[4:6]]
    one = first(kind, [1, 1, 0, 1, 0, 0], case(secrets, half(6)))
    assert (one.value, one.n) == (1.0, compared)
