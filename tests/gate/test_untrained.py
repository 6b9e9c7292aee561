"""What is not known to have been trained on may leak, and never passes."""

from __future__ import annotations

from typing import Any

import pytest

from audit.gate import baseline, verdict
from audit.gate.outcome import State
from audit.gate.policy import Limit, Policy
from tests.gate import make

LOST = "Of 128 planted code copies 0 were trained on (128 missing)."


def run(k: int, untrained: str) -> Any:
    return make.run(make.release("as_is", make.rate(k, untrained=untrained)))


def state(rule: str, results: Any, policy: Policy, old: Any = None) -> State:
    checks = verdict(results, policy, old, make.TODAY).checks
    (found,) = (c.state for c in checks if c.rule == rule and "." in c.subject)
    return found


@pytest.mark.parametrize(
    ("k", "untrained", "expected"),
    [(0, "", State.PASS), (0, LOST, State.INCONCLUSIVE), (60, LOST, State.FAIL)],
)
def test_limit_is_not_met_by_untrained_secrets(k: int, untrained: str, expected: State) -> None:
    assert state("limit", run(k, untrained), Policy(limit=(Limit(0.15),))) is expected


@pytest.mark.parametrize(
    ("before", "now", "after", "expected"),
    [
        ("", 2, "", State.PASS),
        (LOST, 2, "", State.INCONCLUSIVE),
        ("", 2, LOST, State.INCONCLUSIVE),
        (LOST, 2, LOST, State.INCONCLUSIVE),
        ("", 50, LOST, State.FAIL),  # a rise is a rise
    ],
)
def test_no_rise_is_shown_where_a_run_was_untrained(
    before: str, now: int, after: str, expected: State
) -> None:
    old = baseline.make(run(2, before), "first", make.TODAY)
    again = baseline.Baseline.model_validate_json(baseline.text(old))
    assert state("regression", run(now, after), Policy(), again) is expected
