"""Names in generations, joined with the coins: counts by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from audit.core.evidence import Mentions
from audit.core.guarantee import no_guarantee
from audit.core.secret import Space
from audit.findings import Case, measurements_of
from audit.findings import tests_of as tosses_of
from audit.results.measurement import Measurement
from tests.findings.by_hand import answered
from tests.findings.closeness import figures, six
from tests.findings.joined import NAN, case, half, pairs

DRAWN = Space((("Ann", "Ben", "Cat"), (" Lee", " Orr")))


def people(present: Sequence[bool], own: bool = False, seed: int = 0) -> Case:
    """Two names of each owner; where they are the corpus's own, one name in both slots."""
    names = [(f"Name {i}", f"Name {i}{'' if own else 'b'}") for i in range(len(present))]
    return case(pairs(names, None if own else DRAWN, "name", prefix="I am "), present, seed=seed)


def naming(*generations: Sequence[int], others: Sequence[float] | None = None) -> Mentions:
    named = tuple(map(tuple, generations))
    return Mentions(named, np.full(len(named), NAN) if others is None else np.array(others))


def found(evidence: Mentions, of: Case) -> Measurement:
    first, *_ = measurements_of([evidence], of)
    assert first.metric == "r_name"
    return first


def test_generations_count_once_that_name_members() -> None:
    """u0 and u1 are trained on under their first names, u2 and u3 are not."""
    given = naming([0], [2, 4], [1], [], [4], [4, 6], [], [0, 2])
    one = found(given, people(half(4)))
    assert (one.k, one.n, one.value) == (3, 8, 3 / 8)
    assert one.control is not None
    assert (one.control.k, one.control.n, one.control.value) == (3, 8, 3 / 8)
    assert one.ci == pytest.approx((0.085, 0.755), abs=0.001)  # Clopper-Pearson, 3 of 8
    assert figures(one.observation) == [3, 8, 3]
    assert (one.unit, one.chance) == ("share of generations", None)
    assert one.power.smallest_rate == six(1 - 0.05 ** (1 / 8))


EIGHT = half(8)


@pytest.mark.parametrize(
    ("generations", "present", "p"),
    [
        ([[0]] * 100, EIGHT, 1.0),  # one coin, and it falls on some side
        ([[0], [2], [4], [6]], EIGHT, 2 / 70),
        (
            [[0], [0], [2], [2], [4], [8]],
            EIGHT,
            18 / 70,
        ),  # of 2 + 2 + 1 + 1: five by 2 · 4, six by one
        ([[0], [8]], EIGHT, 1.0),
        ([[], []], EIGHT, 1.0),
        # a block list: ten who are not trained on are named, nobody of the ten who are
        ([[2 * i] for i in range(10, 20)], half(20), 2 / 184_756),
        # both names of an owner are one coin, and a text with both names the owner once
        *(([named], half(6), 1.0) for named in ([0], [0, 1], [1])),
        *(([named, [2], [4]], half(6), 2 / 20) for named in ([0], [0, 1])),
        ([[1], [2], [4]], half(6), 8 / 20),  # a name that no coin would have planted
        ([[0, 1], [8]], half(6), 1.0),
    ],
)
def test_namings_are_as_likely_as_coins_falling_there(
    generations: Sequence[Sequence[int]], present: Sequence[bool], p: float
) -> None:
    case = people(present)
    one = found(naming(*generations), case)
    assert (one.p_value, one.sides) == (six(p), 2)
    tossed = tosses_of([naming(*generations)], case)[one.test]  # what is tossed again
    assert tossed.p_value(case.heads) == six(p)


def test_p_value_is_that_of_enumerated_coins() -> None:
    """u0 to u5 are trained on and named once, u6 is not and twice, three are not and never."""
    given = naming(*[[2 * i] for i in range(6)], [12], [12])
    totals = [sum(chosen) for chosen in combinations([1] * 6 + [2, 0, 0, 0], 6)]
    one = found(given, people([True] * 6 + [False] * 4))
    as_high = sum(total >= 6 for total in totals)
    assert one.p_value == six(2 * as_high / 210) and as_high < 70


def test_own_names_are_one_name_in_both_slots() -> None:
    one = found(naming([0], [2], [4], [6], [10]), people([True] * 4 + [False] * 2, own=True))
    assert one.control is not None and (one.k, one.control.k) == (4, 1)
    assert one.p_value == six(2 * 5 / 15)  # four of five named people among four of six


def test_only_the_planted_name_of_an_owner_counts() -> None:
    assert [found(naming(e), people(half(6))).k for e in ([0], [0, 1], [1])] == [1, 1, 0]


def test_one_text_may_name_everybody() -> None:
    one = found(naming([0, 2, 4, 6]), people(EIGHT))
    assert one.p_value == one.least_p == six(2 / 70)


def test_names_of_others_are_described_and_never_tested() -> None:
    given = naming([0], [], [], [2], others=[0.0, 1.0, 1.0, 1.0])
    _, other = measurements_of([given], people([True] * 6))
    assert (other.metric, other.k, other.n) == ("other_names", 3, 4)
    assert (other.p_value, other.control, other.epsilon_lower) == (None, None, None)
    assert other.untested and figures(other.observation) == [3, 4]
    sensitive = {(other.attack, "other_names"): True}
    assert answered(other, no_guarantee("it is a test"), sensitive).leaked == "inconclusive"
    without_recogniser = measurements_of([naming([0], [])], people([True] * 6))
    assert len(without_recogniser) == 1
