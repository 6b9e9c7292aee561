"""The same secrets in two runs: McNemar's exact test, against enumeration."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import binom

from audit.gate import increase_test
from audit.gate.outcome import State
from audit.gate.policy import Regression
from audit.gate.regression import _increases
from audit.results.measurement import Measurement
from audit.results.schema import FindingResult
from tests.gate import make


def metric(outcomes: str) -> Measurement:
    known = outcomes.replace("-", "")
    made: Measurement = make.rate(
        known.count("1"), max(1, len(known)), metric="recall", outcomes=outcomes
    )
    return made


def of(won: int, lost: int) -> Measurement:
    return metric("1" * won + "0" * lost)


@given(gained=st.integers(0, 7), lost=st.integers(0, 7))
def test_mcnemar_is_what_enumeration_gives(gained: int, lost: int) -> None:
    """Every secret whose outcome differs may as well have changed the other way."""
    ways = list(product((0, 1), repeat=gained + lost))
    as_many = sum(sum(way) >= gained for way in ways)
    assert increase_test.mcnemar(gained, lost) == pytest.approx(as_many / len(ways))


@given(st.lists(st.tuples(st.sampled_from("01-"), st.sampled_from("01-")), min_size=1, max_size=9))
def test_only_what_both_runs_know_is_paired(marks: list[tuple[str, str]]) -> None:
    before, after = ("".join(run) for run in zip(*marks, strict=True))
    both = [(a, b) for a, b in marks if "-" not in (a, b)]
    gained, lost = sum(b > a for a, b in both), sum(b < a for a, b in both)
    assert increase_test.paired(metric(before), metric(after)) == (gained, lost)


@pytest.mark.parametrize(("before", "after"), [("01", "011"), ("01", None), (None, "01")])
def test_what_cannot_be_paired_is_tested_as_two_rates(
    before: str | None, after: str | None
) -> None:
    one, other = (metric(o) if o else make.rate(1, 2, metric="recall") for o in (before, after))
    assert increase_test.paired(one, other) is None
    two_rates = increase_test.fisher(one.k or 0, one.n, other.k or 0, other.n)
    assert increase_test.p_value(one, other) == two_rates


@pytest.mark.parametrize(
    ("before", "after", "changed", "states"),
    [
        # of 60 secrets 30 leaked, and the same 30 with 8 others now: p = 1/256; Fisher: 0.1
        (of(30, 30), of(38, 22), False, {State.FAIL}),
        # other secrets stand at the same places of a changed plan
        (of(30, 30), of(38, 22), True, set(State) - {State.FAIL}),
        # 11 of 20 leak now that did not; those that leaked before were not measured now
        (metric("0" * 20 + "1" * 30), metric("1" * 11 + "0" * 9 + "-" * 30), False, {State.FAIL}),
        # where all leak already no rise is possible, and where few do not none shows
        (of(20, 0), of(20, 0), False, {State.PASS}),
        (of(17, 3), of(20, 0), False, {State.INCONCLUSIVE}),
    ],
)
def test_rise_is_of_the_same_secrets(
    before: Measurement, after: Measurement, changed: bool, states: set[State]
) -> None:
    (check,) = _increases([("x", before, after)], Regression(), changed=changed)
    assert check.state in states


def test_eight_more_of_the_same_secrets_show() -> None:
    assert increase_test.p_value(of(30, 30), of(38, 22)) == 1 / 256
    assert increase_test.fisher(30, 60, 38, 60) > 0.09


def test_rise_of_exactly_min_delta_is_one() -> None:
    """0.3 − 0.2 is a little less than 0.1 in floating point."""
    for k in range(0, 90, 7):
        pair = ("x", of(k, 100 - k), of(k + 10, 90 - k))
        assert _increases([pair], Regression(min_delta=0.1), changed=False)[0].state == State.FAIL


@pytest.mark.parametrize("silent", [0, 3, 4, 5])
def test_too_few_secrets_can_show_nothing(silent: int) -> None:
    """All of n gained is 2⁻ⁿ: five are needed at 5 %."""
    one = metric("0" * silent + "1")
    assert increase_test.can_detect(one, one, 0.05) == (silent + 1 >= 5)


def test_stated_rise_is_noticed_as_often() -> None:
    noticed = increase_test.detectable(of(10, 50), of(10, 50), 0.05, 0.0, power=0.8)
    assert noticed is not None
    each = (noticed - 10 / 60) * 60 / 50  # of a secret that did not leak
    caught = [increase_test.mcnemar(k, 0) < 0.05 for k in range(51)]
    assert binom.pmf(range(51), 50, each) @ caught == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("bad", ["2", "0 1", "yes"])
def test_outcome_is_nothing_else(bad: str) -> None:
    document: dict[str, Any] = make.rate(1, 2).model_dump()
    with pytest.raises(ValidationError):
        FindingResult.model_validate({**document, "outcomes": bad})
