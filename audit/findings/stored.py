"""Reads results.json: of this version or an older one, refusing what contradicts itself."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from audit.accounting.table import from_table, recompute
from audit.core.errors import UsageError, first_line
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings import version_1
from audit.findings.finding import LEVEL
from audit.findings.rejections import Family, Rejections, rejections, test_of, untestable
from audit.results.numbers import FROM_FILE
from audit.results.schema import (
    SCHEMA_VERSION,
    Cell,
    FindingResult,
    GuaranteeResult,
    ReleaseResult,
    Results,
    first_error,
)

_ROUNDED = 1 + 1e-4  # six digits are stored; machines differ by less


def load(path: Path) -> Results:
    """Reads results.json. Answers of version 1 are given again, from its tests and bounds.

    Raises UsageError if it is missing, broken, of an unknown version, or says what its own numbers
    do not: a rejected test that is no leak, an ε below that of its own accounting.
    """
    document = _document(path)
    version = document.get("schema_version")
    if version not in (SCHEMA_VERSION, version_1.VERSION):
        raise UsageError(f"{path}: schema version {version!r}; this audit reads {SCHEMA_VERSION!r}")
    old = version == version_1.VERSION
    try:
        document = version_1.upgraded(document) if old else document
        results = Results.model_validate(document, context=FROM_FILE)
        results = version_1.judged_again(results) if old else results
    except ValidationError as error:
        raise UsageError(f"{path}: {first_error(error)}") from None
    for place, release in enumerate(results.releases):
        why = contradiction(release)
        if why:
            raise UsageError(f"{path}: releases.{place} ({release.defense!r}): {why}")
    for place, cell in enumerate(() if results.sweep is None else results.sweep.cells):
        why = _of_cell(cell, results.releases)
        if why:
            raise UsageError(f"{path}: sweep.cells.{place}: {why}")
    return results


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no results here; `audit run` writes them") from None
    except (ValueError, RecursionError, OSError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from None
    return document if isinstance(document, dict) else {}


def contradiction(release: ReleaseResult) -> str:
    """Says what a release states that does not follow from its numbers; empty where nothing."""
    return _of_accounting(release.guarantee) or _of_answers(release)


def _of_cell(cell: Cell, releases: Sequence[ReleaseResult]) -> str:
    """Says what a setting of a sweep states that does not follow from its numbers.

    Its p-values are those of all its seeds; how they test the claim together is not stored.
    """
    tests = max(releases[place].tests for place in cell.releases)
    found = rejections(cell.findings, no_guarantee("of single seeds"), Family(tests, 0))
    hidden = (_hidden_leak(finding, found) for finding in cell.findings)
    return next(filter(None, hidden), "") or _overall(cell)


def _of_answers(release: ReleaseResult) -> str:
    """Finds a rejected test whose measures are called anything but a leak, or a kept claim."""
    claim = release.guarantee.claim
    found = rejections(release.findings, claim, Family(release.tests, release.claim_tests))
    hidden = (
        _hidden_leak(f, found) or _hidden_refutation(f, found, claim) for f in release.findings
    )
    return next(filter(None, hidden), "") or _overall(release)


def _hidden_leak(finding: FindingResult, found: Rejections) -> str:
    word, test = finding.leaked, test_of(finding)
    measured = finding.value is not None or test not in found.measured
    if word != Leaked.LEAK and measured and _sure(found.leaking.get(test)):
        return f"{_name(finding)} is called {str(word)!r}, but its test is rejected"
    if word == Leaked.NONE_FOUND and _sure(finding.p_value):
        return f"{_name(finding)} is called {str(word)!r}, at p = {finding.p_value:.2g}"
    return ""


def _hidden_refutation(finding: FindingResult, found: Rejections, claim: Guarantee) -> str:
    refuted = _sure(found.refuting.get(test_of(finding))) and not untestable(finding, claim)
    if refuted and finding.claim != OnClaim.REFUTED:
        word = str(finding.claim)
        return f"{_name(finding)} says of the claim {word!r}, but its test refutes it"
    return ""


def _sure(p: float | None) -> bool:
    """Tells whether a p-value is below the level, however it was rounded."""
    return p is not None and p * _ROUNDED < LEVEL


def _name(finding: FindingResult) -> str:
    return repr(f"{finding.attack}.{finding.metric}")  # whatever stands in the file, one line


def _overall(joined: ReleaseResult | Cell) -> str:
    """Compares what is said of a release, or of a setting, with what is said of its measures."""
    leak = any(f.leaked == Leaked.LEAK and not f.stronger_than_release for f in joined.findings)
    if leak and joined.leaked != Leaked.LEAK:
        return f"it is called {str(joined.leaked)!r}, but a measure of it is a leak"
    refuted = any(f.claim == OnClaim.REFUTED for f in joined.findings)
    if refuted and joined.claim != OnClaim.REFUTED:
        return f"its claim is called {str(joined.claim)!r}, but a measure refutes it"
    return ""


def _of_accounting(guarantee: GuaranteeResult) -> str:
    """Compares ε, δ and the relation with the accounting that is stored beside them."""
    table = guarantee.accounting
    if table is None or guarantee.epsilon is None or math.isinf(guarantee.epsilon):
        return ""
    try:
        mechanism, delta = from_table(table)
        epsilon = recompute(table)
    except UsageError as error:
        return str(error)
    except (ArithmeticError, TypeError, ValueError) as error:  # of numbers that no run writes
        return f"accounting table: {first_line(error)}"
    if mechanism.relation not in (guarantee.relation, *guarantee.also):
        return f"ε is claimed under {guarantee.relation!r}, accounted under {mechanism.relation!r}"
    claimed = guarantee.delta or 0.0
    if claimed * _ROUNDED < delta:
        return f"δ = {claimed:g} is claimed, and the accounting is for {delta:g}"
    if guarantee.epsilon * _ROUNDED < epsilon:
        return f"ε = {guarantee.epsilon:g} is claimed, and its own accounting gives {epsilon:.6g}"
    return ""
