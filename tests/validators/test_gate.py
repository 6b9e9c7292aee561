"""junit.xml by the schema that pytest is tested by, report.sarif by OASIS' and its SDK's rules."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from audit.gate.outcome import Outcome
from reports import junit, sarif

pytestmark = pytest.mark.validators
SDK = "node_modules/@microsoft/sarif-multitool-linux"
NO_HOME_PAGE = "SARIF2005"  # the one thing that the SDK misses: the tool's address on the web


@pytest.fixture(scope="module")
def junits(outcomes: dict[str, Outcome], real: dict[str, Path]) -> dict[str, str]:
    rendered = {name: junit.render(outcome) for name, outcome in outcomes.items()}
    return rendered | {name: (real[name] / junit.FILENAME).read_text("utf-8") for name in real}


@pytest.fixture(scope="module")
def sarifs(outcomes: dict[str, Outcome], real: dict[str, Path]) -> dict[str, str]:
    rendered = {name: sarif.render(outcome) for name, outcome in outcomes.items()}
    return rendered | {name: (real[name] / sarif.FILENAME).read_text("utf-8") for name in real}


@pytest.fixture(scope="module")
def xsd(installed: Callable[[str], Path]) -> Callable[[str], list[str]]:
    from lxml import etree

    schema = etree.XMLSchema(etree.parse(installed("junit-10.xsd")))

    def errors(text: str) -> list[str]:
        schema.validate(etree.fromstring(text.encode("utf-8")))
        return [str(error) for error in schema.error_log]

    return errors


@pytest.fixture(scope="module")
def oasis(installed: Callable[[str], Path]) -> Callable[[Any], list[str]]:
    schema = json.loads(installed(f"{SDK}/sarif-2.1.0.json").read_text(encoding="utf-8-sig"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    return lambda document: [error.message for error in validator.iter_errors(document)]


@pytest.fixture(scope="module")
def multitool(installed: Callable[[str], Path]) -> Path:
    return installed(f"{SDK}/Sarif.Multitool")


def test_junit_is_what_pytest_and_jenkins_read(
    xsd: Callable[[str], list[str]], junits: dict[str, str]
) -> None:
    assert {name: xsd(text) for name, text in junits.items() if xsd(text)} == {}


def test_the_junit_schema_sees_a_fault(
    xsd: Callable[[str], list[str]], junits: dict[str, str]
) -> None:
    for good, bad in ((' name="', ' nom="'), ("failure", "blame"), (' tests="', ' count="')):
        assert good in junits["every"]
        assert xsd(junits["every"].replace(good, bad))


def test_sarif_is_what_oasis_says(
    oasis: Callable[[Any], list[str]], sarifs: dict[str, str]
) -> None:
    found = {name: oasis(json.loads(text)) for name, text in sarifs.items()}
    assert {name: errors for name, errors in found.items() if errors} == {}


def test_the_sarif_schema_sees_a_fault(
    oasis: Callable[[Any], list[str]], sarifs: dict[str, str]
) -> None:
    for good, bad in (('"level"', '"grade"'), ('"startLine": 7', '"startLine": 0'),
                      ('"external"', '"elsewhere"'), ('"2.1.0"', '"2.2.0"')):  # fmt: skip
        assert good in sarifs["every"]
        assert oasis(json.loads(sarifs["every"].replace(good, bad)))


def test_the_sarif_sdk_misses_a_home_page_and_no_more(
    multitool: Path, sarifs: dict[str, str], tmp_path: Path
) -> None:
    for name, text in sarifs.items():
        (tmp_path / f"{name}.sarif").write_text(text)
    (tmp_path / "faulty.sarif").write_text(
        sarifs["every"].replace('"startLine": 7', '"endLine": 7')
    )
    command = [str(multitool), "validate", "--level", "Error;Warning", str(tmp_path / "*.sarif")]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    said = re.findall(r"([\w]+)\.sarif\S*: (?:error|warning) (\w+):", ran.stdout)
    assert {name for name, _ in said} == {*sarifs, "faulty"}, ran.stdout + ran.stderr
    assert {rule for name, rule in said if name != "faulty"} == {NO_HOME_PAGE}
    assert {rule for name, rule in said if name == "faulty"} > {NO_HOME_PAGE}
