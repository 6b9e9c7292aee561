"""Waivers hold until their day is over; expired and unused ones are named."""

from __future__ import annotations

import datetime

import pytest

from audit.gate import verdict
from audit.gate.outcome import State
from audit.gate.policy import Policy, Waiver
from tests.gate import make

LEAKY = make.run(make.release("x", make.rate(5, leaked="leak"), make.rate(0, metric="recall")))


@pytest.mark.parametrize(
    ("pattern", "days", "note"),
    [
        *(("leak/x/*", days, None) for days in (0, 1, 400)),
        ("leak/x/*", -1, "expired on 2030-06-14; 1 checks"),
        ("leak/y/*", 0, "waives nothing"),
        ("leak/x/extraction.recall", 0, "waives nothing"),  # which passes
    ],
)
def test_waiver_holds_until_its_day_is_over(pattern: str, days: int, note: str | None) -> None:
    expires = make.TODAY + datetime.timedelta(days)
    policy = Policy(empirical=False, waiver=(Waiver(pattern, expires, "ticket 7"),))
    outcome = verdict(LEAKY, policy, None, make.TODAY)
    waived = [check for check in outcome.checks if check.state == State.WAIVED]
    if note is None:
        assert [check.subject for check in waived] == ["extraction.hit_rate"]
        assert "ticket 7" in waived[0].sentence and "FAIL waived until" in waived[0].sentence
        assert (outcome.state, outcome.exit_code) == (State.PASS, 0)
    else:
        assert (waived, outcome.state, outcome.exit_code) == ([], State.FAIL, 1)
        assert any(all(word in said for word in note.split("; ")) for said in outcome.notes)
