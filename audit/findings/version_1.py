"""Results of schema version 1, which had one verdict where there are two answers now.

Both answers are given again from the p-values, tests and bounds that a file stores. Where these do
not suffice, the answer is inconclusive; a leak that version 1 found stays a leak.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings.headline import headline
from audit.findings.leaked import leaked, suspicious
from audit.findings.on_claim import on_claim
from audit.findings.rejections import Family, Rejections, rejections, test_of
from audit.findings.verdict import claim_overall, leaked_overall
from audit.results.schema import Cell, FindingResult, ReleaseResult, Results

VERSION = "1"
_LEAKS = ("refuted", "consistent", "not comparable")
NOTE = (
    "these are results of schema version 1: what leaked, and what it says about the claims, was "
    "answered again from their p-values and bounds"
)


def upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """Rewrites a document of version 1; its old verdicts stand in `untested` until judged again."""
    new = {**document, "schema_version": "2"}
    if isinstance(document.get("releases"), list):
        new["releases"] = [_release(release) for release in document["releases"]]
    sweep = document.get("sweep")
    if isinstance(sweep, dict) and isinstance(sweep.get("cells"), list):
        new["sweep"] = {**sweep, "cells": [_release(cell) for cell in sweep["cells"]]}
    return new


def _release(release: Any) -> Any:
    if not isinstance(release, dict) or not isinstance(release.get("findings"), list):
        return release  # what is wrong with it is said when it is validated
    words = {"leaked": str(Leaked.INCONCLUSIVE), "claim": str(OnClaim.NOT_TESTABLE)}
    return {**release, **words, "findings": [_finding(f, words) for f in release["findings"]]}


def _finding(finding: Any, words: dict[str, str]) -> Any:
    if not isinstance(finding, dict):
        return finding
    new = {k: v for k, v in finding.items() if k != "verdict"}
    bound = finding.get("epsilon_lower")
    if isinstance(bound, dict):
        kept = {k: v for k, v in bound.items() if k not in ("r", "v")}
        if bound.get("r") is not None and bound.get("v") is not None:
            kept["guesses"] = [[bound["r"], bound["v"]]]
        new["epsilon_lower"] = kept
    old = f"{finding.get('verdict', 'inconclusive')}"
    return {**new, **words, "claim_sentence": "", "untested": old}


def judged_again(results: Results) -> Results:
    """Gives both answers to every finding of upgraded results."""
    releases = [_judged(release) for release in results.releases]
    sweep = results.sweep
    if sweep is None:
        text = headline(releases)
    else:
        cells = [_judged_cell(cell, releases) for cell in sweep.cells]
        sweep = sweep.model_copy(update={"cells": cells})
        leaking = sum(cell.leaked == Leaked.LEAK for cell in cells)
        text = f"Of {len(cells)} settings, references included, {leaking} leak."
    update = {"releases": releases, "sweep": sweep, "headline": text}
    return results.model_copy(update={**update, "warnings": [*results.warnings, NOTE]})


def _judged(release: ReleaseResult) -> ReleaseResult:
    claim, tests = release.guarantee.claim, release.tests
    findings = _answers(release.findings, claim, Family(tests, tests))
    return release.model_copy(update={**_overall(findings, claim), "claim_tests": tests})


def _judged_cell(cell: Cell, releases: Sequence[ReleaseResult]) -> Cell:
    members = [releases[i] for i in cell.releases]
    claim = max((r.guarantee.claim for r in members), key=promised)  # the weakest of the seeds'
    tests = max(release.tests for release in members)
    return cell.model_copy(
        update=_overall(_answers(cell.findings, claim, Family(tests, tests)), claim)
    )


def promised(claim: Guarantee) -> float:
    """Returns the claimed epsilon, which is infinite where none is known."""
    return math.inf if claim.epsilon is None else claim.epsilon


def _overall(findings: list[FindingResult], claim: Guarantee) -> dict[str, Any]:
    return {
        "findings": findings,
        "leaked": leaked_overall(findings),
        "claim": claim_overall(findings, claim),
    }


def _answers(
    findings: Sequence[FindingResult], claim: Guarantee, family: Family
) -> list[FindingResult]:
    found = rejections(findings, claim, family)
    return [_answered(finding, claim, found) for finding in findings]


def _answered(finding: FindingResult, claim: Guarantee, found: Rejections) -> FindingResult:
    old, bare = finding.untested, finding.model_copy(update={"untested": ""})
    word, sentence = leaked(bare, found, None)
    if old in _LEAKS and word != Leaked.LEAK:
        word, sentence = Leaked.LEAK, finding.sentence
    elif word == Leaked.LEAK and old in _LEAKS:
        sentence = finding.sentence
    elif word == Leaked.INCONCLUSIVE and old == "silent" and is_borne_out(bare):
        word, sentence = Leaked.NONE_FOUND, finding.sentence
    elif word == Leaked.NOT_MEASURED:
        sentence = finding.sentence
    elif word == Leaked.INCONCLUSIVE:
        sentence = finding.sentence if old == "inconclusive" else "More than chance, or unclear."
    claim_word, claim_sentence = on_claim(bare, claim, found)
    if old == "refuted" and test_of(bare) not in found.refuting:
        claim_word, claim_sentence = OnClaim.REFUTED, finding.sentence
    return bare.model_copy(
        update={
            "leaked": word,
            "sentence": sentence,
            "claim": claim_word,
            "claim_sentence": claim_sentence,
        }
    )


def is_borne_out(finding: FindingResult) -> bool:
    """Tells whether a stored p-value, and all else, bears out that no leak was found."""
    silent = finding.p_value is not None and not finding.untrained
    return silent and not suspicious(finding)
