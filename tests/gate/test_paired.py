"""The same secrets in two runs: McNemar's exact test, against enumeration and by simulation."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.gate import increase_test
from audit.gate.outcome import State
from audit.gate.policy import Regression
from audit.gate.regression import _increases
from audit.results.measurement import Measurement
from tests.gate import make
from tests.simulations import repeats

marks = st.text("01-", min_size=1, max_size=9)


def metric(outcomes: str, name: str = "recall") -> Measurement:
    known = outcomes.replace("-", "")
    made = make.rate(known.count("1"), max(1, len(known)), metric=name, outcomes=outcomes)
    return made


@given(gained=st.integers(0, 7), lost=st.integers(0, 7))
def test_mcnemar_is_what_enumeration_gives(gained: int, lost: int) -> None:
    """Every secret whose outcome differs may as well have changed the other way."""
    ways = list(product((0, 1), repeat=gained + lost))
    as_many = sum(sum(way) >= gained for way in ways)
    assert increase_test.mcnemar(gained, lost) == pytest.approx(as_many / len(ways))


@given(pair=marks.flatmap(lambda a: st.tuples(st.just(a), st.text("01-", min_size=len(a),
                                                                 max_size=len(a)))))  # fmt: skip
def test_only_what_both_runs_know_is_paired(pair: tuple[str, str]) -> None:
    before, after = pair
    both = [(a, b) for a, b in zip(before, after, strict=True) if "-" not in (a, b)]
    gained = sum(b > a for a, b in both)
    lost = sum(b < a for a, b in both)
    assert increase_test.paired(metric(before), metric(after)) == (gained, lost)


@pytest.mark.parametrize(("before", "after"), [("01", "011"), ("01", None), (None, "01")])
def test_what_cannot_be_paired_is_tested_as_two_rates(
    before: str | None, after: str | None
) -> None:
    one, other = (metric(o) if o else make.rate(1, 2, metric="recall") for o in (before, after))
    assert increase_test.paired(one, other) is None
    assert increase_test.p_value(one, other) == increase_test.fisher(
        one.k or 0, one.n, other.k or 0, other.n
    )


def test_eight_more_of_the_same_secrets_is_a_rise_that_two_rates_do_not_show() -> None:
    """Of 60 secrets 30 leaked, and the same 30 with 8 others now: p = 1/256; Fisher: 0.1."""
    one, other = metric("1" * 30 + "0" * 30), metric("1" * 38 + "0" * 22)
    assert increase_test.p_value(one, other) == 1 / 256
    assert increase_test.fisher(30, 60, 38, 60) > 0.09
    assert _increases([("x", one, other)], Regression(), changed=False)[0].state == State.FAIL


def test_a_changed_plan_pairs_nothing() -> None:
    """Other secrets stand at the same places."""
    one, other = metric("1" * 30 + "0" * 30), metric("1" * 38 + "0" * 22)
    assert _increases([("x", one, other)], Regression(), changed=True)[0].state != State.FAIL


@pytest.mark.parametrize("silent", [0, 3, 4, 5])
def test_too_few_secrets_can_show_nothing(silent: int) -> None:
    """All of n gained is 2⁻ⁿ: five are needed at 5 %."""
    one, other = metric("0" * silent + "1"), metric("0" * silent + "1")
    assert increase_test.can_detect(one, other, 0.05) == (silent + 1 >= 5)


def test_the_rise_it_says_it_notices_is_noticed_as_often(generator: np.random.Generator) -> None:
    before = metric("1" * 10 + "0" * 50)
    noticed = increase_test.detectable(before, before, 0.05, 0.0, power=0.8)
    assert noticed is not None
    each = (noticed - 10 / 60) * 60 / 50  # of a secret that did not leak
    caught = 0
    for _ in range(2000):
        gained = int(generator.binomial(50, each))
        caught += increase_test.mcnemar(gained, 0) < 0.05
    assert caught / 2000 == pytest.approx(0.8, abs=0.03)


@repeats(200, 3000)
def test_where_nothing_changed_it_seldom_alarms(
    runs: int, generator: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six metrics of 60 secrets; each leaks with a probability of its own, in both runs alike."""
    monkeypatch.setattr(increase_test, "detectable", lambda *_: None)
    alarms = 0
    for _ in range(runs):
        pairs = []
        for _ in range(6):
            each = generator.beta(0.7, 0.7, size=60)
            one, other = ((generator.random(60) < each).astype(int) for _ in range(2))
            told = ["".join(map(str, run)) for run in (one, other)]
            pairs.append(("x", *(metric(t) for t in told)))
        states = [check.state for check in _increases(pairs, Regression(), changed=False)]
        alarms += State.FAIL in states
    assert 0.005 < alarms / runs < 0.05


@pytest.mark.parametrize("bad", ["2", "0 1", "yes"])
def test_an_outcome_is_nothing_else(bad: str) -> None:
    from pydantic import ValidationError

    from audit.results.schema import FindingResult

    document: dict[str, Any] = make.rate(1, 2).model_dump()
    with pytest.raises(ValidationError):
        FindingResult.model_validate({**document, "outcomes": bad})


@pytest.mark.parametrize("before", range(0, 90, 7))
def test_a_rise_of_exactly_min_delta_is_one(before: int) -> None:
    """0.3 − 0.2 is a little less than 0.1 in floating point."""
    one = metric("1" * before + "0" * (100 - before))
    other = metric("1" * (before + 10) + "0" * (90 - before))
    held = Regression(min_delta=0.1)
    assert _increases([("x", one, other)], held, changed=False)[0].state == State.FAIL


def test_the_rise_is_of_the_secrets_that_both_know() -> None:
    """11 of 20 leak now that did not; those that leaked before were not measured now."""
    one = metric("0" * 20 + "1" * 30)
    other = metric("1" * 11 + "0" * 9 + "-" * 30)
    assert _increases([("x", one, other)], Regression(), changed=False)[0].state == State.FAIL


def test_where_all_leak_already_no_rise_is_possible_and_where_few_do_not_none_shows() -> None:
    whole, most = metric("1" * 20), metric("1" * 17 + "0" * 3)
    states = [
        _increases([("x", before, whole)], Regression(), changed=False)[0].state
        for before in (whole, most)
    ]
    assert states == [State.PASS, State.INCONCLUSIVE]
