"""Waivers hold until their day is over; expired and unused ones are named."""

from __future__ import annotations

import datetime

import pytest

from audit.gate import verdict
from audit.gate.outcome import Outcome, State
from audit.gate.policy import Policy, Waiver
from tests.gate import make


def gated(pattern: str, expires: datetime.date) -> Outcome:
    leaky = make.run(make.release("x", make.rate(5, leaked="leak"), make.rate(0, metric="recall")))
    waiver = Waiver(pattern, expires, "ticket 7")
    return verdict(leaky, Policy(empirical=False, waiver=(waiver,)), None, make.TODAY)


@pytest.mark.parametrize("days", [0, 1, 400])
def test_a_waiver_holds_until_its_day_is_over(days: int) -> None:
    outcome = gated("leak/x/*", make.TODAY + datetime.timedelta(days))
    waived = [check for check in outcome.checks if check.state == State.WAIVED]
    assert [check.subject for check in waived] == ["extraction.hit_rate"]
    assert "ticket 7" in waived[0].sentence and "FAIL waived until" in waived[0].sentence
    assert (outcome.state, outcome.exit_code) == (State.PASS, 0)


def test_an_expired_waiver_is_none_and_says_so() -> None:
    outcome = gated("leak/x/*", make.TODAY - datetime.timedelta(1))
    assert (outcome.state, outcome.exit_code) == (State.FAIL, 1)
    assert any("expired on 2030-06-14" in note and "1 checks" in note for note in outcome.notes)


def test_an_unused_waiver_is_reported() -> None:
    for pattern in ("leak/y/*", "leak/x/extraction.recall"):  # the second one passes
        outcome = gated(pattern, make.TODAY)
        assert outcome.state == State.FAIL
        assert any("waives nothing" in note for note in outcome.notes)
