"""Reads results.json and refuses results that contradict themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from audit.accounting.table import from_table, recompute
from audit.core import files
from audit.core.errors import UsageError, first_line
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings import bounds
from audit.findings.finding import LEVEL
from audit.findings.leaked import Sensitive, leaked
from audit.findings.on_claim import on_claim
from audit.findings.rejections import Family, Rejections, rejections, test_of, untestable
from audit.findings.verdict import claim_overall, leaked_overall
from audit.results.numbers import FROM_FILE
from audit.results.schema import (
    SCHEMA_VERSION,
    Cell,
    EpsilonLower,
    FindingResult,
    GuaranteeResult,
    ReleaseResult,
    Results,
    first_error,
)

_ROUNDED = 1 + 1e-4  # six digits are stored; machines differ by less
_NATS = 3e-5  # of a bound near 0, likewise
_AGAIN = "; run its plan again, which trains nothing that is there"


def load(path: Path) -> Results:
    """Read results.json.

    Raises UsageError if it is missing, broken, of another version, or says what its own numbers
    do not: a rejected test that is no leak, silence of a test that shows nothing, an ε below that
    of its own accounting.
    """
    document = _document(path)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UsageError(f"{path}: schema version {version!r}; this audit reads {SCHEMA_VERSION!r}")
    try:
        results = Results.model_validate(document, context=FROM_FILE)
    except ValidationError as error:
        raise UsageError(f"{path}: {first_error(error)}") from None
    seeds = {release.seed for release in results.releases}
    sensitive = {seed: _sensitive(results.releases, seed) for seed in seeds}
    for place, release in enumerate(results.releases):
        why = _of_accounting(release.guarantee)
        why = why or _of_release(release, sensitive[release.seed])
        if why:
            raise UsageError(f"{path}: releases.{place} ({release.defense!r}): {why}{_AGAIN}")
    for place, cell in enumerate(() if results.sweep is None else results.sweep.cells):
        why = _of_cell(cell, results.releases)
        if why:
            raise UsageError(f"{path}: sweep.cells.{place}: {why}{_AGAIN}")
    return results


def _document(path: Path) -> dict[str, Any]:
    try:
        document = files.read_json(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no results here; `audit run` writes them") from None
    except (ValueError, RecursionError, OSError) as error:
        raise UsageError(f"{path}: cannot be read as JSON ({error})") from None
    return document if isinstance(document, dict) else {}


def _of_release(release: ReleaseResult, sensitive: Sensitive | None) -> str:
    """Says what a release states that does not follow from its numbers; empty where nothing."""
    claim, findings = release.guarantee.claim, release.findings
    found = rejections(findings, claim, Family(release.tests, release.claim_tests))
    for finding in findings:
        why = (
            _hidden_leak(finding, found)
            or _hidden_refutation(finding, found, claim)
            or _unearned_silence(finding, _clear(found), sensitive)
            or _unearned_word(finding, found, claim)
            or _of_evidence(finding, release.claim_tests)
        )
        if why:
            return f"{_name(finding)} {why}"
    return _overall(release, claim)


def _of_cell(cell: Cell, releases: Sequence[ReleaseResult]) -> str:
    """Says what a setting of a sweep states that does not follow from its numbers.

    Its p-values are those of all its seeds; how they test the claim together is not stored.
    """
    seeds = [releases[place] for place in cell.releases]
    found = rejections(
        cell.findings, no_guarantee("of single seeds"), Family(max(r.tests for r in seeds), 0)
    )
    for finding in cell.findings:
        why = _hidden_leak(finding, found) or _unlike_its_seeds(finding, seeds)
        if why:
            return f"{_name(finding)} {why}"
    return _overall(cell, max((r.guarantee.claim for r in seeds), key=_promised))


def _promised(claim: Guarantee) -> float:
    """Return the claimed ε in nats, which is infinite where it is unknown."""
    return math.inf if claim.epsilon is None else claim.epsilon


def _sensitive(releases: Sequence[ReleaseResult], seed: int) -> Sensitive | None:
    """Tells where the positive control of a seed leaked, by its numbers; None without a control."""
    controls = [r for r in releases if r.defense == "none" and r.seed == seed]
    for control in sorted(controls, key=lambda r: not r.reference):
        eased = [
            f if f.p_value is None else f.model_copy(update={"p_value": f.p_value / _ROUNDED})
            for f in control.findings
        ]
        family = Family(control.tests, control.claim_tests)
        found = rejections(eased, control.guarantee.claim, family)
        words = {(f.attack, f.metric): leaked(f, found, None)[0] for f in eased}
        return {
            (f.attack, f.metric): f.leaked == words[f.attack, f.metric] == Leaked.LEAK
            for f in control.findings
        }
    return None


def _eased(finding: FindingResult) -> FindingResult:
    """Lets a finding show what it could have shown before it was rounded, or a little more."""
    least, test, power = finding.least_p, finding.claim_test, finding.power
    most = power.largest_epsilon
    update = {
        "least_p": None if least is None else least / _ROUNDED,
        "claim_test": test and test.model_copy(update={"least_p": test.least_p / _ROUNDED}),
        "power": power.model_copy(update={"largest_epsilon": most and most * _ROUNDED}),
    }
    return finding.model_copy(update=update)


def _hidden_leak(finding: FindingResult, found: Rejections) -> str:
    word, test = finding.leaked, test_of(finding)
    measured = finding.value is not None or test not in found.measured
    if word != Leaked.LEAK and measured and _sure(found.leaking.get(test)):
        return f"is called {str(word)!r}, but its test is rejected"
    if word == Leaked.NONE_FOUND and _sure(finding.p_value):
        return f"is called {str(word)!r}, at p = {finding.p_value:.2g}"
    return ""


def _hidden_refutation(finding: FindingResult, found: Rejections, claim: Guarantee) -> str:
    refuted = _sure(found.refuting.get(test_of(finding))) and not untestable(finding, claim)
    if refuted and finding.claim != OnClaim.REFUTED:
        return f"says of the claim {str(finding.claim)!r}, but its test refutes it"
    return ""


def _unearned_silence(
    finding: FindingResult, found: Rejections, sensitive: Sensitive | None
) -> str:
    """Compares the first answer with the one that follows; a leak may have been one unrounded."""
    stated = finding.leaked
    if stated == Leaked.LEAK and finding.charge_test is None:
        return ""
    word, why = leaked(_eased(finding), found, sensitive)
    less = stated == Leaked.NONE_FOUND or Leaked.NOT_MEASURED in (stated, word)
    return _instead(f"is called {str(stated)!r}", word, why) if less and stated != word else ""


def _unearned_word(finding: FindingResult, found: Rejections, claim: Guarantee) -> str:
    """Compares the second answer with the one that follows, where that could have been better."""
    stated, nothing = finding.claim, (OnClaim.UNKNOWN, OnClaim.NOTHING_CLAIMED)
    if not claim.promises_nothing and stated not in (OnClaim.NOT_REFUTED, *nothing):
        return ""
    word, why = on_claim(_eased(finding), _smaller(claim), found)
    wrong = stated in nothing or word in nothing or word == OnClaim.NOT_TESTABLE
    return (
        _instead(f"says of the claim {str(stated)!r}", word, why)
        if wrong and stated != word
        else ""
    )


def _instead(stated: str, word: str, why: str) -> str:
    return f"{stated}, but it follows {str(word)!r}: {why}".rstrip(": ")


def _smaller(claim: Guarantee) -> Guarantee:
    """The claim before ε and δ were rounded up, or a little below."""
    epsilon, delta = (None if x is None else x / _ROUNDED for x in (claim.epsilon, claim.delta))
    return replace(claim, epsilon=epsilon, delta=delta)


def _clear(found: Rejections) -> Rejections:
    """Those tests alone that are rejected however their p-values were rounded."""
    return replace(found, leaking={test: p for test, p in found.leaking.items() if _sure(p)})


def _of_evidence(finding: FindingResult, claim_tests: int) -> str:
    """Compares a bound, a test of the claim and one of a ledger with what they come from."""
    test = finding.claim_test
    if test is not None and test.critical is not None and test.v >= test.critical:
        level = LEVEL / max(1, claim_tests)
        if test.p_value > level * _ROUNDED:
            enough = f"{test.v} guesses right refute the claim from {test.critical} on"
            return f"has p = {test.p_value:.2g} of the claim, but {enough}"
    return _of_bound(finding.epsilon_lower) or _of_ledger(finding)


def _of_bound(bound: EpsilonLower | None) -> str:
    if bound is None:
        return ""
    shown = bounds.at_delta(bound, bound.delta)
    if math.isclose(bound.value, shown, rel_tol=_ROUNDED - 1, abs_tol=_NATS):
        return ""
    return f"has the bound ε = {bound.value:g}, but its own evidence gives {shown:.6g}"


def _of_ledger(finding: FindingResult) -> str:
    test, value = finding.charge_test, finding.value
    if test is None or not test.queries:
        return ""
    if value is None:
        return f"has no value, but {test.queries} queries were compared"
    if test.exceeded is not None:
        beyond = value >= 1.0 if test.exceeded else value > 1.0  # rounded, just above 1 is 1
        if beyond != (test.exceeded > 0):
            most = f"the worst at {value:g} times it"
            return f"has {test.exceeded} queries beyond their charge, {most}"
    elif test.p_value is not None:
        p = 1.0 / max(1.0, value)
        if not p / _ROUNDED <= test.p_value <= p * _ROUNDED:
            return f"has p = {test.p_value:.2g} of the charges, but its wealth gives {p:.2g}"
    return ""


def _unlike_its_seeds(finding: FindingResult, seeds: Sequence[ReleaseResult]) -> str:
    """Says which silence over seeds is none of theirs."""
    of = (finding.attack, finding.metric, finding.unit)
    each = [f for r in seeds for f in r.findings if (f.attack, f.metric, f.unit) == of]
    stated, none = finding.leaked, Leaked.NONE_FOUND
    if stated == none and not (each and all(f.leaked == none for f in each)):
        return f"is called {str(stated)!r}, but not so in each of its seeds"
    tested = (OnClaim.REFUTED, OnClaim.NOT_REFUTED)
    if finding.claim == OnClaim.NOT_REFUTED and not any(f.claim in tested for f in each):
        return f"says of the claim {str(finding.claim)!r}, but no seed of it tested that"
    if finding.charge_test is not None and stated != Leaked.NOT_MEASURED:
        return f"is called {str(stated)!r}, but looks for no planted secret"
    return ""


def _sure(p: float | None) -> bool:
    """Tells whether a p-value is below the level, however it was rounded."""
    return p is not None and p * _ROUNDED < LEVEL


def _name(finding: FindingResult) -> str:
    return repr(f"{finding.attack}.{finding.metric}")  # whatever stands in the file, one line


def _overall(joined: ReleaseResult | Cell, claim: Guarantee) -> str:
    """Compares what is said of a release, or of a setting, with what is said of its measures."""
    word = leaked_overall(joined.findings)
    if joined.leaked != word:
        of_them = "a measure of it is a leak" if word == Leaked.LEAK else f"its measures: {word}"
        return f"it is called {str(joined.leaked)!r}, but {of_them}"
    answer = claim_overall(joined.findings, claim)
    if joined.claim != answer:
        of_them = "a measure refutes it" if answer == OnClaim.REFUTED else f"its measures: {answer}"
        return f"its claim is called {str(joined.claim)!r}, but {of_them}"
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
