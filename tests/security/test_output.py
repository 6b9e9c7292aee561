"""No string of a stranger's acts on a terminal, in a CI log, or in any format that is written."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from audit.cli.say import say
from audit.core.errors import UsageError
from audit.core.visible import printed, visible, without_passwords
from audit.findings import stored
from audit.plugins import registry
from audit.results.schema import Results
from reports import Format, Report
from tests import by_hand
from tests.command_line import audit
from tests.reports.pages import assert_inert

# one each for terminals, CI logs, HTML, XML, Markdown, typst, spreadsheets, templates and readers
PAYLOADS = (
    "\x1b[31mRED\x1b]0;title\x07",
    "a\n::error file=x::forged",
    "##[error]forged ##vso[task.complete]",
    "<script>alert(1)</script>",
    "\"'><img src=//evil.example onerror=alert(1)>",
    "]]>&lt;!ENTITY x SYSTEM 'file:///etc/passwd'>",
    "[l](javascript:alert(1))|`c`@user https://evil.example",
    '#eval("1+1")#read("/etc/passwd")$x^2$*b*_i_',
    '=HYPERLINK("http://evil.example")',
    "\t=1+1",
    "@SUM(1)\r\n+1",
    "{{7*7}}{%x%}${7*7}",
    "gnp\u202eexe\u2066\u200b\ufeff",
    "\x00\x9b31m\x85\u2028",
    "\ud800z" + "\u0301" * 9,
    "</style></title>--><!--",
)
HIDDEN = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")


def poisoned(results: Results, turn: int) -> tuple[Results, int]:
    """Replace each free string, wherever it stands, by a payload of its own; count them."""
    put: dict[str, str] = {}

    def over(tree: Any, key: str = "") -> Any:
        if isinstance(tree, dict):
            return {name: over(value, name) for name, value in tree.items()}
        if isinstance(tree, list | tuple):
            return [over(value, key) for value in tree]
        if not isinstance(tree, str) or key in by_hand.KEPT or tree in by_hand.LITERALS:
            return tree
        return put.setdefault(tree, f"{PAYLOADS[(len(put) + turn) % len(PAYLOADS)]} {len(put)}")

    document = over(results.model_dump())
    for payload in PAYLOADS:
        document["plan"][payload] = document["environment"][payload] = payload
    return Results.model_validate(document), len(put)


@pytest.fixture(scope="module")
def hostile() -> list[Report]:
    made = [poisoned(by_hand.EVERY[name](), i) for i, name in enumerate(("results", "four"))]
    assert sum(put for _, put in made) >= 250
    return [Report(results, Path("nowhere")) for results, _ in made]


def assert_plain(text: str, breaks: str = "\n") -> None:
    assert {c for c in text if unicodedata.category(c) in HIDDEN} <= set(breaks)
    text.encode()


def assert_html(text: str) -> None:
    assert_plain(text)
    assert_inert(text, links=r"report\.html#[\w-]+")


def assert_pdf(content: bytes) -> None:
    assert content.startswith(b"%PDF")
    assert not re.search(rb"/(JavaScript|JS|Launch|EmbeddedFile|URI)\b", content)


def assert_junit(text: str) -> None:
    assert_plain(text)
    tags = {element.tag for element in ElementTree.fromstring(text).iter()}
    assert tags <= {"testsuites", "testsuite", "testcase", "failure", "skipped", "system-out"}


def assert_csv(text: str) -> None:
    assert_plain(text, "\r\n")
    for row in csv.reader(io.StringIO(text, newline="")):
        assert not any(cell.startswith(tuple("=+@\t\r")) for cell in row)


def assert_json(text: str) -> None:
    assert_plain(text)
    json.loads(text)


def assert_card(text: str) -> None:
    """Assert that a model card is one block of YAML, of which no string leaves its place."""
    assert_plain(text)
    assert text.startswith("---\n") and text.endswith("\n---\n") and text.count("\n---") == 1
    cards = yaml.safe_load(text.removesuffix("---\n"))["model-index"]
    assert cards and all(set(card) == {"name", "results"} for card in cards)


TABLE: dict[str, dict[str, Callable[[Any], None]]] = {
    "html": {"html": assert_html},
    "pdf": {"pdf": assert_pdf},
    "junit": {"xml": assert_junit},
    "sarif": {"sarif": assert_json},
    "csv": {"csv": assert_csv},
    "intoto": {"json": assert_json},
    "cyclonedx": {"json": assert_json},
    "model_index": {"md": assert_card},
    "annex": {"html": assert_html, "pdf": assert_pdf, "json": assert_json},
}


SECONDS = ("html", "pdf", "annex")  # what they take, for one of the two


@pytest.mark.parametrize("name", TABLE)
def test_no_string_acts_in_any_written_format(name: str, hostile: list[Report]) -> None:
    made = registry.build("reports", name, Format, {})[1]  # type: ignore[type-abstract]
    for report in hostile[name in SECONDS :]:
        for file, content in made.files(report).items():
            check = TABLE[name][file.rpartition(".")[2]]
            check(content if file.endswith(".pdf") else content.decode())


def test_results_that_are_read_by_programs_hold_no_raw_control(hostile: list[Report]) -> None:
    for report in hostile:
        text = json.dumps(report.stored.model_dump(mode="json"))
        assert_json(text)


def test_refusal_that_would_quote_half_a_character_is_one_line(tmp_path: Path) -> None:
    document = by_hand.EVERY["results"]().model_dump(mode="json")
    for finding in document["releases"][0]["findings"][:2]:  # the same name twice is refused
        finding.update(attack="\ud800", metric="x")
    (tmp_path / "results.json").write_text(json.dumps(document))
    with pytest.raises(UsageError) as refused:
        stored.load(tmp_path / "results.json")
    assert "\n" not in str(refused.value) and "results.json" in str(refused.value)


# the terminal


@pytest.mark.parametrize("payload", PAYLOADS)
def test_printed_line_is_one_plain_line_without_a_command(payload: str) -> None:
    for line in (payload, f" {payload}", f"note: {payload}"):
        shown = printed(line)
        assert_plain(shown, breaks="")
        assert not shown.lstrip().startswith("::") and not re.search(r"##(\[|vso\[)", shown)


def test_own_lines_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    say("ε = 2 nats: “fine”, a::b", "  next: ## x", err=True)
    assert capsys.readouterr().err == "ε = 2 nats: “fine”, a::b\n  next: ## x\n"
    say("a\nb")
    assert capsys.readouterr().out == "a‹U+000A›b\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--log mlflow:http://me:p@ss:w@h:5000/x", "--log mlflow:http://…@h:5000/x"),
        ("mlflow:https://:token@h", "mlflow:https://…@h"),
        ("http://h:80/a@b and ray://h:1", "http://h:80/a@b and ray://h:1"),
    ],
)
def test_passwords_of_addresses_are_hidden(text: str, shown: str) -> None:
    assert without_passwords(text) == printed(text) == shown


def test_visible_text_is_cut() -> None:
    assert visible("a" * 20, 5) == "aaaaa … (15 more characters)"


EVIL = r"\u001b[31mRED\n::error::forged"  # as TOML writes it
SETTINGS = {
    "quoted": f'''[tool.audit]
policy = "{EVIL},pipeline=x"
corpus = "{EVIL}.jsonl"
[tool.audit.planting]
users = 4
code_template = "{EVIL} #{{value}}."
''',
    "refused": f'[tool.audit]\n"{EVIL}" = 1\n',
}


@pytest.mark.parametrize("name", SETTINGS)
def test_commands_print_no_escape_and_no_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"user": f"u{i}", "text": f"Hello {i}, my order is late."} for i in range(16)]
    corpus = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "\x1b[31mRED\n::error::forged.jsonl").write_text(corpus)
    (tmp_path / "pyproject.toml").write_text(SETTINGS[name])
    monkeypatch.setenv("CI", "true")
    words = ("run", "--defense", "none", "--attack", "extraction", "--dry-run")
    done = audit(*words, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert "RED" in said and "Traceback" not in said
    assert_plain(said)
    assert not re.search(r"^\s*::", said, re.M)
