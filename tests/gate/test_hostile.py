"""Hostile labels, reasons and plans are text and nothing else, wherever they are shown."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from audit.core.visible import visible
from audit.gate import baseline, comparison, verdict
from audit.gate.outcome import Outcome, State
from audit.gate.policy import Limit, Policy, Waiver
from audit.gate.render import console
from audit.gate.render import markdown as summary
from audit.gate.render.escaping import markdown
from audit.results.schema import Results
from reports import junit, sarif
from tests.gate import make

HOSTILE = (
    "<script>alert(1)</script> ]]> &amp; <img src=x onerror=alert(1)> [a](javascript:b) "
    "![i](http://evil.example/p.png) | # *b* `c` ~~d~~ @everyone http://evil.example "
    "www.evil.example \x1b[31m\x1b]0;owned\x07 \x00\x08 \u202eexe.gnp\u2066 \u200b \ud800 \ufffe "
    "\r\n- [x] row\n### head"
)
LEAKED = "48213-77"


def poisoned(k: int = 40) -> Results:
    words = {"leaked": "leak", "claim": "refuted"} if k else {}
    found = make.rate(
        k, attack=HOSTILE, metric=HOSTILE, unit=HOSTILE, method=HOSTILE, **words,
        sentence=f"it said {LEAKED}",
    )  # fmt: skip
    claim = make.claim(unit=HOSTILE, relation=HOSTILE, basis=HOSTILE, theorem=HOSTILE)
    one = make.release(HOSTILE, found, guarantee=claim, parameters={HOSTILE: HOSTILE, "k": k})
    plan = {HOSTILE: [HOSTILE, k], "attacks": [{"name": HOSTILE, "parameters": {"k": k}}]}
    run = make.run(one, make.release(HOSTILE, found, parameters={"z": HOSTILE}), plan=plan)
    corpus = run.corpus.model_copy(update={"name": HOSTILE})
    return run.model_copy(update={"corpus": corpus, "headline": [HOSTILE]})  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    policy = Policy(
        limit=(Limit(0.1, line=3), Limit(0.1, defense=HOSTILE[:40])),
        waiver=(Waiver("limit/*", make.TODAY, HOSTILE), Waiver(HOSTILE, make.TODAY, HOSTILE)),
        leaks=True,
        name=HOSTILE,
    )
    old = baseline.make(poisoned(0), HOSTILE, make.TODAY)
    found = verdict(poisoned(), policy, old, make.TODAY)
    assert {check.state for check in found.checks} >= {State.FAIL, State.WAIVED}
    return found


def assert_plain(text: str) -> None:
    hidden = [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")]
    assert set(hidden) <= {"\n"}
    assert LEAKED not in text
    text.encode("utf-8")


def test_the_terminal_is_not_written_to(outcome: Outcome) -> None:
    text = console.render(outcome)
    assert_plain(text)
    assert len(text.splitlines()) == len(outcome.checks) + len(outcome.notes) + 2


def test_junit_stays_xml_without_a_foreign_element(outcome: Outcome) -> None:
    text = junit.render(outcome)
    assert_plain(text)
    tags = {element.tag for element in ElementTree.fromstring(text).iter()}
    assert tags <= {"testsuites", "testsuite", "testcase", "failure", "skipped", "system-out"}


def test_sarif_is_ascii_without_links(outcome: Outcome) -> None:
    text = sarif.render(outcome)
    assert text.isascii()
    for result in json.loads(text)["runs"][0]["results"]:
        message = result["message"]["text"]
        assert_plain(message)
        assert not re.search(r"(?<!\\)[\[\]]", message)
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[\w.~%/-]+", uri)


def test_the_summary_is_text_in_a_table(outcome: Outcome) -> None:
    text = summary.render(outcome)
    assert_plain(text)
    ours = re.sub(r"</?(details|summary)>|^\*\*|\*\*$", "", text, flags=re.M)
    assert not re.search(r"[<>`*\[\]@~]", ours)
    assert not re.search(r"www\.|https?:", ours)
    assert len(re.findall(r"^#", text, re.M)) == 1
    for row in re.findall(r"^\|.*$", text, re.M):
        assert row.count("|") == 4


def test_markdown_leaves_nothing_for_a_renderer_to_read() -> None:
    """Every character that Markdown could read is a reference; undone, the text is the same."""
    from html import unescape

    shown = visible(HOSTILE)
    assert unescape(markdown(shown)) == shown
    assert re.fullmatch(r"(?:[\w ,%=/.]|&#\d+;)*", markdown(shown))
    assert markdown("0.05 of 1.5") == "0.05 of 1.5"


def test_a_comparison_is_plain() -> None:
    text = comparison.text(comparison.compare(poisoned(), poisoned(0)))
    assert_plain(text)
    assert "‹U+001B›" in text


def test_a_baseline_is_ascii_json_without_what_was_said(tmp_path: Path) -> None:
    text = baseline.text(baseline.make(poisoned(), HOSTILE, make.TODAY))
    assert text.isascii() and LEAKED not in text
    document: dict[str, Any] = json.loads(text)
    assert document["reason"] == HOSTILE
    (tmp_path / "b.json").write_text(text)
    read = baseline.load(tmp_path / "b.json")
    assert verdict(poisoned(), Policy(), read, make.TODAY).state == State.FAIL
