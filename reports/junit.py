"""junit.xml: the checks of the gate, a test case each, after Jenkins' junit-10 schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.etree import ElementTree

from audit.gate.outcome import Check, Outcome, State
from reports import Format, Report

FILENAME = "junit.xml"


@dataclass(frozen=True)
class JUnit(Format):
    """The checks of the gate as test cases, for a CI server."""

    def files(self, report: Report) -> dict[str, bytes]:
        return {FILENAME: render(report.outcome).encode("utf-8")}


def render(outcome: Outcome) -> str:
    """Format the file. A check that stops the build fails; an open or waived one is skipped."""
    counts = _counts(outcome, outcome.checks)
    root = ElementTree.Element("testsuites", {"name": "audit gate", **counts})
    ordered = sorted(outcome.checks, key=_release)
    for release, group in groupby(ordered, key=_release):
        checks = list(group)
        skipped = sum(_skipped(outcome, check) for check in checks)
        counts = {**_counts(outcome, checks), "skipped": str(skipped)}
        suite = ElementTree.SubElement(root, "testsuite", {"name": release or "run", **counts})
        for check in checks:
            _case(suite, outcome, check)
    if outcome.notes:
        notes = ElementTree.SubElement(
            root, "testsuite", name="notes", tests="0", failures="0", errors="0"
        )
        ElementTree.SubElement(notes, "system-out").text = "\n".join(outcome.notes)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _release(check: Check) -> str:
    return check.release


def _counts(outcome: Outcome, checks: Sequence[Check]) -> dict[str, str]:
    failures = sum(outcome.stops(check) for check in checks)
    return {"tests": str(len(checks)), "failures": str(failures), "errors": "0"}


def _skipped(outcome: Outcome, check: Check) -> bool:
    return not outcome.stops(check) and check.state not in (State.PASS, State.WARNED)


def _case(suite: ElementTree.Element, outcome: Outcome, check: Check) -> None:
    name = "/".join(filter(None, (check.rule, check.subject)))
    classname = ".".join(filter(None, ("audit", check.release, check.rule)))
    case = ElementTree.SubElement(suite, "testcase", classname=classname, name=name)
    if outcome.stops(check):
        failure = ElementTree.SubElement(case, "failure", type=check.state.value)
        failure.set("message", check.sentence)
        failure.text = f"{check.id}: {check.sentence}"
    elif _skipped(outcome, check):
        message = f"{check.state}: {check.sentence}"
        ElementTree.SubElement(case, "skipped", type=check.state.value, message=message)
    else:
        warned = f"{check.state}: " if check.state == State.WARNED else ""
        ElementTree.SubElement(case, "system-out").text = f"{warned}{check.sentence}"
