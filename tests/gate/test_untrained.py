"""What is not known to have been trained on may leak, and never passes."""

from __future__ import annotations

from typing import Any

import pytest

from audit.findings.rejections import Family
from audit.findings.shows import Shows
from audit.findings.verdict import judge
from audit.gate import baseline, verdict
from audit.gate.outcome import State
from audit.gate.policy import Limit, Policy
from tests.findings.by_hand import by_holm
from tests.gate import make

LOST = "Of 128 planted code copies 0 were trained on (128 missing)."


def run(k: int, untrained: str = "", **changes: Any) -> Any:
    found = make.rate(k, untrained=untrained, **changes)
    return make.run(make.release("as_is", found))


def states(results: Any, policy: Policy, old: Any = None) -> dict[str, Any]:
    outcome = verdict(results, policy, old, make.TODAY)
    return {check.rule: check.state for check in outcome.checks if "." in check.subject}


@pytest.mark.parametrize(("untrained", "state"), [("", State.PASS), (LOST, State.INCONCLUSIVE)])
def test_a_limit_is_not_met_by_what_was_not_trained(untrained: str, state: State) -> None:
    policy = Policy(limit=(Limit(0.15),))
    assert states(run(0, untrained), policy)["limit"] is state


def test_a_limit_is_broken_by_what_leaks_anyway() -> None:
    policy = Policy(limit=(Limit(0.15),))
    assert states(run(60, LOST), policy)["limit"] is State.FAIL


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ("", "", State.PASS),
        (LOST, "", State.INCONCLUSIVE),
        ("", LOST, State.INCONCLUSIVE),
        (LOST, LOST, State.INCONCLUSIVE),
    ],
)
def test_no_rise_is_shown_where_either_run_was_not_trained(
    before: str, after: str, state: State
) -> None:
    old = baseline.make(run(2, before), "first", make.TODAY)
    again = baseline.Baseline.model_validate_json(baseline.text(old))
    found = states(run(2, after), Policy(), again)
    assert found["regression"] is state


def test_a_rise_fails_all_the_same() -> None:
    old = baseline.make(run(2), "first", make.TODAY)
    assert states(run(50, LOST), Policy(), old)["regression"] is State.FAIL


@pytest.mark.parametrize(
    ("others", "state"),
    [([], State.INCONCLUSIVE), ([""], State.PASS), ([LOST], State.INCONCLUSIVE)],
)
def test_a_claim_is_not_upheld_by_what_was_not_trained(others: list[str], state: State) -> None:
    bound = make.bound(0.0, m=100, guesses=[(66, 33)])
    found = [
        make.rate(0, metric=f"rate_{i}", epsilon_lower=bound, untrained=told)
        for i, told in enumerate([LOST, *others])
    ]
    judged = judge(by_holm(found, make.claim(), Family(2, 2)), make.claim(), Shows(), Family(2, 2))
    outcome = verdict(make.run(make.release("as_is", *judged)), Policy(), None, make.TODAY)
    (check,) = (c for c in outcome.checks if c.rule == "empirical")
    assert check.state is state
