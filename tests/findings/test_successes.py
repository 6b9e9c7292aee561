"""Attacks that succeed or fail on each secret: counts by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.core.evidence import Successes
from audit.findings import Case, measurements_of
from audit.findings import tests_of as tosses_of
from audit.results.measurement import Measurement
from tests.findings.closeness import figures, six
from tests.findings.joined import NAN, case, half, pairs, records


def won(*firsts: float, seconds: Sequence[float] | None = None, chance: float | None = None) -> Any:
    """Of each owner; the second value as the first where it is not given."""
    both = zip(firsts, firsts if seconds is None else seconds, strict=True)
    return Successes("verbatim", "share of planted records", np.array([*both]).ravel(), chance)


def found(evidence: Successes, of: Case) -> Measurement:
    (finding,) = measurements_of([evidence], of)
    return finding


def of(*present: bool) -> Case:
    return case(records(len(present)), present)


def test_successes_are_counted_by_hand() -> None:
    one = found(won(1, 1, 0, 1, 0, 0), of(*half(6)))
    assert (one.metric, one.unit) == ("verbatim", "share of planted records")
    assert (one.k, one.n, one.value) == (2, 3, six(2 / 3))
    assert one.control is not None
    assert (one.control.k, one.control.n, one.control.value) == (1, 3, six(1 / 3))
    assert figures(one.observation) == [2, 3, 1, 3]
    none = found(won(0, 0, 0, 1, 1, 1, chance=0.1), of(*half(6)))
    assert none.ci == six((0.0, 1 - 0.025 ** (1 / 3)))
    assert one.power.smallest_rate == six(1 - 0.05 ** (1 / 3))
    assert (one.chance, none.chance) == (None, 0.1)  # what the attack says


@pytest.mark.parametrize(
    ("given", "present", "p"),
    [
        # won on four who are trained on and one who is not: of C(8, 5) choices, 1 and 5 · 3
        (won(1, 1, 1, 1, 0, 1, 0, 0), [True] * 5 + [False] * 3, 32 / 56),
        (won(1, 1, 1, 1, 0, 0, 0, 0), half(8), 2 / 70),
        (won(*[1] * 8), [True] * 8, 1.0),  # nobody to compare with
        (won(*[0] * 8), [True] * 8, 1.0),
        (won(*[0] * 10, *[1] * 10), half(20), 2 / 184_756),  # a block list
        # on u1 to u4, and not on u5, the only one trained on; u0 was not reached
        (won(NAN, 1, 1, 1, 1, 0), [True] + [False] * 4 + [True], 2 / 5),
        (won(NAN, 1, 1, 1, 1, 0), [False, True] + [False] * 4, 1.0),
        # by the values that the second coins chose, whatever the others do
        (won(1, 1, 1, 1, 1, 0, seconds=[1, 0, NAN, 0, 1, 1]), [True] * 5 + [False], 2 / 6),
        (won(*[0] * 6, seconds=[1, 1, 1, 1, 1, 0]), [True] * 5 + [False], 1.0),
    ],
)
def test_successes_are_as_likely_as_coins_falling_there(
    given: Successes, present: Sequence[bool], p: float
) -> None:
    one, case = found(given, of(*present)), of(*present)
    assert (one.p_value, one.sides) == (six(p), 2)
    assert tosses_of([given], case)[one.test].p_value(case.heads) == six(p)  # what is tossed again


@pytest.mark.parametrize(("twins", "reaches"), [(0, True), (10, False)])
def test_reach_falls_with_successes_on_twins(twins: int, reaches: bool) -> None:
    """Guesses among ten names win on one twin in ten, and hide what one person in three leaks."""
    usual = [1] * (twins // 2) + [0] * (100 - twins) + [1] * (twins - twins // 2)
    one = found(won(*usual, chance=0.1), replace(of(*half(100)), tests=76))
    assert one.power.found is not None
    assert (one.power.found >= 0.8) == reaches


def test_unmeasured_secret_is_left_out_with_its_owner() -> None:
    """u1 and u4 were not reached; u2's second value was not."""
    given = won(1, NAN, 1, 1, NAN, 0, 0, 0, 0, seconds=[0, NAN, NAN, 1, 0, 0, 0, 0, 0])
    one = found(given, of(*[True] * 4, *[False] * 5))
    assert (one.k, one.n) == (3, 3)  # u0, u2 and u3 by their first values
    assert one.control is not None and one.control.n == 4
    assert one.p_value == six(2 / 35)  # the three, of seven owners
    assert one.epsilon_lower is not None and one.epsilon_lower.m == 6  # guesses need both values


def test_name_is_shared_whatever_stands_before_it() -> None:
    secrets = [
        secret
        for i, (before, name) in enumerate([("I am", "Ann Lee"), ("Ben", "Orr"), ("Is", "Ann Lee")])
        for secret in pairs([(name, name)] * 3, None, "name", prefix=f"{before} ")[2 * i :][:2]
    ]
    one = found(won(1, 1, 1), case(secrets, [True, True, False]))
    assert (one.k, one.n, one.control) == (1, 1, None)
