"""A leak to those with more access than the release gives, as every reader of a gate sees it."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from audit.core.terms import Leaked
from audit.findings.headline import headline
from audit.gate import verdict
from audit.gate.outcome import Outcome, State
from audit.gate.policy import Limit, Policy, Waiver
from reports import junit, sarif
from reports._content import glance
from tests.gate import make
from tests.gate.make import TODAY

INSIDERS = Leaked.INSIDERS


def sarif_results(outcome: Outcome) -> Any:
    return json.loads(sarif.render(outcome))["runs"][0]["results"]


INSIDE = "leak/submix/extraction.probability"


@pytest.mark.parametrize(
    ("policy", "state", "level", "place"),
    [
        (Policy(), State.WARNED, "note", "system-out"),
        (Policy(leaks=True), State.WARNED, "note", "system-out"),
        (Policy(insiders=True), State.FAIL, "error", "failure"),
        (Policy(limit=(Limit(0.9, metric="probability"),)), State.WARNED, "note", "system-out"),
        (
            Policy(insiders=True, waiver=(Waiver(INSIDE, TODAY, "known"),)),
            State.WAIVED, "note", "skipped",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("beside", [True, False])
def test_leak_to_insiders_stands_in_every_view(
    policy: Policy, state: State, level: str, place: str, beside: bool
) -> None:
    """beside: the attack has a measure by what the release gives, without a leak."""
    inside = make.rate(40, metric="probability", leaked=INSIDERS, stronger_than_release=True)
    quiet = make.rate(0, metric="recall")
    results = make.run(make.release("submix", *([quiet, inside] if beside else [inside])))
    outcome = verdict(results, policy, None, make.TODAY)
    (check,) = (c for c in outcome.checks if c.id == INSIDE)
    assert check.state == state and "leak to insiders (0.4 [" in check.sentence
    assert (outcome.exit_code == 1) == (state == State.FAIL)
    (noted,) = (r for r in sarif_results(outcome) if INSIDE in r["message"]["text"])
    assert noted["level"] == level
    case = ElementTree.fromstring(junit.render(outcome)).find(
        ".//testcase[@name='leak/extraction.probability']"
    )
    assert case is not None and [child.tag for child in case] == [place]
    assert "leak to insiders" in headline(results.releases)[0]
    assert "leak to insiders" in glance.text(results)
