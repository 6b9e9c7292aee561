"""One outcome, four views: console, JUnit, SARIF and the Markdown summary agree.

Their shape is validated by the schemas of others: see tests/validators/test_gate.py.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from audit.gate.outcome import Check, Outcome, State
from audit.gate.render import console, markdown
from audit.gate.render.rules import RULES
from reports import junit, sarif

GATE = Path(__file__).parents[2] / "audit" / "gate"
CHECKS = (
    Check("plan", "", "", State.PASS, "the baseline's"),
    Check("leak", "submix", "extraction.hit_rate", State.FAIL, "a leak (0.4 [0.3, 0.5])"),
    Check("limit", "submix", "extraction.recall", State.INCONCLUSIVE, "n = 299 would", 7),
    Check("limit", "dp_sgd", "exposure.exposure_1_copy", State.WAIVED, "until 2030", 12),
    Check("empirical", "dp_sgd", "", State.SKIPPED, "no ε is claimed"),
)
OUTCOME = Outcome(CHECKS, ("a note",), "ci/audit policy.toml", strict=False)
STRICT = replace(OUTCOME, strict=True)


@pytest.mark.parametrize("outcome", [OUTCOME, STRICT, replace(OUTCOME, checks=(), notes=())])
def test_junit_counts_what_it_holds(outcome: Outcome) -> None:
    text = junit.render(outcome)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for suite in (root, *root.iter("testsuite")):
        assert int(suite.attrib["tests"]) == len(list(suite.iter("testcase")))
        assert int(suite.attrib["failures"]) == len(list(suite.iter("failure")))
    for suite in root.iter("testsuite"):
        assert int(suite.attrib.get("skipped", 0)) == len(list(suite.iter("skipped")))
    cases = [(c.attrib["classname"], c.attrib["name"]) for c in root.iter("testcase")]
    assert len(set(cases)) == len(cases) == len(outcome.checks)


def test_junit_fails_where_the_build_does() -> None:
    for outcome in (OUTCOME, STRICT, replace(STRICT, checks=CHECKS[2:3]),
                    replace(OUTCOME, checks=CHECKS[2:3])):  # fmt: skip
        failures = list(ElementTree.fromstring(junit.render(outcome)).iter("failure"))
        assert bool(failures) == (outcome.exit_code != 0)


def results(outcome: Outcome) -> list[dict[str, Any]]:
    (one,) = json.loads(sarif.render(outcome))["runs"]
    rules = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in one["results"])
    found: list[dict[str, Any]] = one["results"]
    return found


def places(outcome: Outcome) -> list[tuple[str, int]]:
    found = (r["locations"][0]["physicalLocation"] for r in results(outcome))
    return [(f["artifactLocation"]["uri"], f["region"]["startLine"]) for f in found]


def test_sarif_lists_what_is_not_passed_with_its_place() -> None:
    found = results(OUTCOME)
    assert [r["level"] for r in found] == ["error", "warning", "note"]
    assert [r["level"] for r in results(STRICT)] == ["error", "error", "note"]
    assert places(OUTCOME) == [("ci/audit%20policy.toml", line) for line in (1, 7, 12)]
    assert [r.get("suppressions") is not None for r in found] == [False, False, True]
    for name in ("/home/me/repo/audit.toml", "../audit.toml"):  # no place on this machine
        assert {uri for uri, _ in places(replace(OUTCOME, policy=name))} == {"audit.toml"}


def test_every_rule_says_what_helps_and_names_taxa_that_are_there() -> None:
    (run,) = json.loads(sarif.render(OUTCOME))["runs"]
    taxa = [{taxon["id"] for taxon in one["taxa"]} for one in run["taxonomies"]]
    names = [one["name"] for one in run["taxonomies"]]
    assert run["tool"]["driver"]["supportedTaxonomies"] == [
        {"name": name, "index": place} for place, name in enumerate(names)
    ]
    related: dict[str, set[str]] = {}
    for rule in run["tool"]["driver"]["rules"]:
        for one in rule.get("relationships", ()):
            component = one["target"]["toolComponent"]
            assert names[component["index"]] == component["name"]
            assert one["target"]["id"] in taxa[component["index"]]
            related.setdefault(rule["id"], set()).add(one["target"]["id"])
    every = {"AML.T0024.000", "AML.T0057", "LLM02:2025", "CWE-200", "CWE-359"}
    assert related == dict.fromkeys(("leak", "empirical", "limit", "regression"), every)


def test_every_kind_of_check_has_a_rule() -> None:
    """A check without a rule could not be written at all."""
    source = "".join(path.read_text("utf-8") for path in GATE.glob("*.py"))
    kinds = set(re.findall(r'Check\(\s*"(\w+)"', source))
    assert kinds and kinds <= {rule.id for rule in RULES}


def test_fingerprints_know_no_value_and_messages_hold_no_link() -> None:
    moved = [replace(check, sentence="other", line=99) for check in CHECKS]
    prints = [[r["partialFingerprints"] for r in results(replace(OUTCOME, checks=tuple(c)))]
              for c in (CHECKS, moved)]  # fmt: skip
    assert prints[0] == prints[1]
    assert len({str(one) for one in prints[0]}) == 3
    assert "\\[0.3, 0.5\\]" in results(OUTCOME)[0]["message"]["text"]


def test_console_ends_with_the_verdict_worst_before_it() -> None:
    lines = console.render(OUTCOME).splitlines()
    assert lines[-1] == OUTCOME.headline
    assert lines[-1] == (
        "gate: FAIL (1 failed, 1 inconclusive, 1 passed, 1 waived, 1 not applicable)"
    )
    assert [line.split()[0] for line in lines[:5]] == [
        "SKIPPED", "PASS", "WAIVED", "INCONCLUSIVE", "FAIL",
    ]  # fmt: skip


def test_the_summary_shows_what_did_not_pass_and_folds_the_rest() -> None:
    text = markdown.render(OUTCOME)
    open_part, folded = text.split("<details>")
    assert text.startswith("### gate")
    assert [word in open_part for word in ("| FAIL |", "| INCONCLUSIVE |", "| WAIVED |")] == [
        True
    ] * 3
    assert "| PASS |" in folded and "| SKIPPED |" in folded
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"\|", row)) == 4 for row in rows)


@pytest.mark.parametrize(
    ("states", "strict", "state", "code"),
    [
        ("PASS", False, State.PASS, 0),
        ("PASS SKIPPED WAIVED", True, State.PASS, 0),
        ("PASS INCONCLUSIVE", False, State.INCONCLUSIVE, 0),
        ("PASS INCONCLUSIVE", True, State.INCONCLUSIVE, 4),
        ("PASS INCONCLUSIVE FAIL", True, State.FAIL, 1),
        ("SKIPPED", False, State.INCONCLUSIVE, 0),
        ("", True, State.INCONCLUSIVE, 4),
    ],
)
def test_states_and_exit_codes(states: str, strict: bool, state: State, code: int) -> None:
    checks = tuple(Check("leak", "x", str(i), State(s), "") for i, s in enumerate(states.split()))
    outcome = Outcome(checks, (), "audit.toml", strict)
    assert (outcome.state, outcome.exit_code) == (state, code)
