"""What a reader is shown, and what is written as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from audit.check import Claim, Examination, as_json, table
from audit.check.catalogue import Check
from audit.check.checks.claim import ClaimTest
from audit.check.outcome import Outcome, Status, not_read
from audit.statistics.sampled_gaussian import Area

TEST = ClaimTest(1.0, 0.0104, 1000, 1.9, 96, 48, 30, 39, 0.5, Area(0.61, 0.6, 0.7))
OUTCOMES = (
    Outcome(Check.RATE, "vectors", Status.PASSED, "share sampled", 0.2, "0.2", 0.31, 0.104),
    Outcome(Check.SCALE, "vectors", Status.FAILED, "noise / σC", 0.9, "1", 0.0, 0.007),
    Outcome(Check.SCALE, "texts", Status.FAILED, "noise / σC", 0.901, "1", 2e-190, 0.007),
    Outcome(Check.INFINITE, "vectors", Status.FAILED, "contribution / C", math.inf, "at most 1"),
    not_read(Check.UPDATE, "vectors", "the adapter returns no parameters"),
)
EXAMINED = Examination("mine", Claim(), OUTCOMES, TEST)


def test_the_table_says_what_failed() -> None:
    shown = table.text(EXAMINED)
    lines = shown.splitlines()
    assert lines[0].startswith("mine, stated as DP-SGD by record: σ = 1, C = 1.5, q = 0.01")
    assert "(realised: 0.0104)" in lines[0]
    cells = [line.split() for line in lines]
    assert cells[3][:7] == ["ok", "K4", "sampling", "rate", "vectors", "share", "sampled"]
    assert cells[3][7:] == ["0.2", "0.2", "0.31", "10.4", "%"]
    assert cells[4][-5:] == ["1", "<", "10⁻³⁰⁰", "0.7", "%"]
    assert "2 × 10⁻¹⁹⁰" in lines[5]
    starts = {line.index(outcome.units) for line, outcome in zip(lines[3:], OUTCOMES, strict=False)}
    assert starts == {lines[2].index("units")}
    assert shown.count("K7 failed, which usually means") == 1
    assert "K13: the adapter returns no parameters." in lines
    assert "cannot see" in shown
    assert lines[-1] == "mine: failed K7 noise scale, K16 infinite gradient"
    assert max(map(len, lines)) <= 110


def test_a_refuted_claim_is_said_and_fails() -> None:
    refuted = replace(EXAMINED, outcomes=OUTCOMES[:1], claim=replace(TEST, right=44, p=0.01))
    assert not refuted.passed
    assert "44 of 48 guesses about 96 coins are right, p = 0.01. Refuted" in " ".join(
        table.text(refuted).split()
    )
    assert table.verdict(refuted) == "mine: every check passed; the claim is refuted"
    right = replace(EXAMINED, outcomes=OUTCOMES[:1])
    assert right.passed
    assert table.verdict(right) == "mine: every check passed"
    assert "This confirms nothing" in table.claim(TEST)
    assert "no number would refute it" in table.claim(replace(TEST, needed=None))


def test_what_was_not_read_is_no_failure_and_is_named() -> None:
    examined = replace(EXAMINED, outcomes=(OUTCOMES[0], OUTCOMES[-1], OUTCOMES[-1]))
    assert examined.passed
    due = "mine: every check that could be read passed; not read: K13 update"
    assert table.verdict(examined) == due


def test_every_check_has_a_code_and_a_meaning() -> None:
    assert len({check.code for check in Check}) == len(Check)
    assert all(check.title and check.means and not check.means.endswith(".") for check in Check)


def test_json_holds_all_outcomes() -> None:
    read = json.loads(as_json.text(EXAMINED))
    assert (read["engine"], read["passed"], read["stated"]["max_norm"]) == ("mine", False, 1.5)
    assert [row["check"] for row in read["checks"]] == ["K4", "K7", "K7", "K16", "K13"]
    assert read["checks"][3]["value"] == "inf"
    assert read["checks"][1] == {
        "check": "K7",
        "name": "noise scale",
        "means": Check.SCALE.means,
        "units": "vectors",
        "status": "failed",
        "quantity": "noise / σC",
        "value": 0.9,
        "due": "1",
        "p": 0.0,
        "detects": 0.007,
        "remark": "",
    }
    assert (read["claim"]["right"], read["claim"]["refuted"]) == (30, False)
    nan = replace(OUTCOMES[0], value=math.nan)
    assert (
        json.loads(as_json.text(replace(EXAMINED, outcomes=(nan,))))["checks"][0]["value"] is None
    )
