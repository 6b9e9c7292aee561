"""Reads results.json, refusing what does not follow from the numbers in it.

Every answer is given again by the functions that gave it, from the numbers that it was given from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from audit.accounting.table import from_table, recompute
from audit.core.errors import UsageError, first_line
from audit.core.guarantee import Guarantee
from audit.core.terms import Leaked, OnClaim
from audit.findings import bounds, guesses
from audit.findings.agreement import Agreement, agreements, leaked_by_setting
from audit.findings.controls import BY_CONTROL, Named, leaks_beside, leaks_in, sight_by
from audit.findings.rejections import Family, rejections, test_of
from audit.findings.settings import one_toss
from audit.findings.shows import (
    NO_CONTROL,
    NO_REFERENCES,
    NOT_NEEDED,
    Shows,
    silence_over,
    stated_by,
)
from audit.findings.verdict import claim_overall, judged
from audit.results.joined import LEVEL, leak_p, leaked_overall
from audit.results.numbers import FROM_FILE, agree, rounded
from audit.results.reading import AGAIN, read
from audit.results.schema import Cell, EpsilonLower, FindingResult, ReleaseResult, Results

_FOLLOWS = (BY_CONTROL, NO_CONTROL, NO_REFERENCES, NOT_NEEDED.by)  # sight by other findings


def load(path: Path) -> Results:
    """Read results.json.

    Raises UsageError if it is missing, broken, of another version, or states what does not follow
    from its own numbers: an answer, a bound on ε, an ε below that of its own accounting.
    """
    _, results = read(path, FROM_FILE)
    for place, release in enumerate(results.releases):
        why = _of_accounting(release.guarantee) or _of_release(release, _controls(results, place))
        if why:
            raise UsageError(f"{path}: releases.{place} ({release.defense!r}): {why}{AGAIN}")
    cells = [] if results.sweep is None else results.sweep.cells
    seeds_of = [[results.releases[one] for one in cell.releases] for cell in cells]
    together = agreements(seeds_of, one_toss(results.plan))
    for place, (cell, several) in enumerate(zip(cells, seeds_of, strict=True)):
        why = _of_cell(cell, several, together[place])
        if why:
            raise UsageError(f"{path}: sweep.cells.{place}: {why}{AGAIN}")
    return results


def _controls(results: Results, place: int) -> list[FindingResult] | None:
    """Find the leaks of a release's positive controls, of its seed; None without references."""
    if not results.plan.get("references", True):
        return None
    seed = results.releases[place].seed
    same = [one for one in results.releases if one.seed == seed]
    named = [Named(one.defense, one.role, one.reference) for one in same]
    own = sum(one.seed == seed for one in results.releases[:place])
    return leaks_beside(own, named, lambda i: _leaks(same[i]))


def _leaks(control: ReleaseResult) -> Sequence[FindingResult]:
    return leaks_in(control.findings, control.guarantee, _family(control))


def _family(release: ReleaseResult) -> Family:
    return Family(release.tests, release.claim_tests)


def _of_release(release: ReleaseResult, leaks: Sequence[FindingResult] | None) -> str:
    """Describe what a release states that does not follow from its numbers; empty if all does.

    leaks: of the positive controls. Contact and any other sight are taken as they stand: they
    follow from the models, not from numbers.
    """
    claim = release.guarantee
    found = rejections(release.findings, claim, _family(release))
    for finding in release.findings:
        answer = judged(finding, claim, _shows(finding, leaks), found)
        reason = answer.sentence.removeprefix(answer.observation)
        why = (
            _of_bound(finding.epsilon_lower)
            or _unlike(finding, (answer.leaked, reason), (answer.claim, answer.claim_sentence))
            or _of_claim_test(finding, LEVEL / max(1, release.claim_tests))
            or _of_ledger(finding)
            or _of_adjusted(finding, claim)
        )
        if why:
            return f"{_name(finding)} {why}"
    return _overall(release, claim, leaked_overall(release.findings))


def _of_adjusted(finding: FindingResult, claim: Guarantee) -> str:
    """Compare adjusted p-values with the unadjusted ones, which no adjustment makes smaller."""
    p, adjusted = finding.p_value, finding.adjusted_p
    if (p is None) != (adjusted is None):
        return f"has p = {p} and adjusted p = {adjusted}"
    if p is not None and adjusted is not None and adjusted < p:
        return f"has the adjusted p = {adjusted:g}, below its p = {p:g}"
    if finding.look_p is not None and finding.look_p > (leak_p(finding) or 0.0):
        return f"has p = {finding.look_p:g} of one look, above its adjusted p"
    if guesses.test_claim(finding, claim):
        least = rounded(guesses.p_value(finding))
        if finding.guesses_p is None or finding.guesses_p < least:
            return f"has the adjusted p = {finding.guesses_p} of guesses whose p is {least:g}"
    elif finding.guesses_p is not None:
        return f"has the adjusted p = {finding.guesses_p:g} of guesses that test no claim"
    return ""


def _shows(finding: FindingResult, leaks: Sequence[FindingResult] | None) -> Shows:
    """Return what a finding states was shown for it, with the control's sight that follows here."""
    stated = stated_by(finding)
    own = {name: link for name, link in stated.sight.items() if link.by not in _FOLLOWS}
    control = None if leaks is None else sight_by(leaks, [finding])
    return Shows(stated.contact, own).beside(control)


def _of_cell(cell: Cell, seeds: Sequence[ReleaseResult], together: Agreement) -> str:
    """Describe what a setting of a sweep states that does not follow from its seeds."""
    if not agree(cell.adjusted_p, together.adjusted_p):
        return f"has p = {cell.adjusted_p}, but its seeds give {together.adjusted_p:.6g}"
    for finding in cell.findings:
        of = (finding.attack, finding.metric, finding.unit)
        each = [f for r in seeds for f in r.findings if (f.attack, f.metric, f.unit) == of]
        if not each:
            why = "is measured in none of its seeds"
        elif together.seeds == 1:
            why = "" if finding == each[0] else "is not that of its only seed"
        else:
            why = _unlike_its_seeds(finding, together.p_values.get(test_of(finding)))
            why = why or _unlike(
                finding, together.leaked(finding, each), together.on_claim(finding, each)
            )
        if why:
            return f"{_name(finding)} {why}"
    return _overall(cell, together.claim, leaked_by_setting(cell.findings, seeds))


def _unlike(
    stated: FindingResult, leaked: tuple[Leaked, str], on_claim: tuple[OnClaim, str]
) -> str:
    """Compare both answers with those that follow."""
    if stated.leaked != leaked[0]:
        return _instead(f"is called {str(stated.leaked)!r}", *leaked)
    if stated.claim != on_claim[0]:
        return _instead(f"says of the claim {str(stated.claim)!r}", *on_claim)
    return ""


def _instead(stated: str, word: str, why: str) -> str:
    return f"{stated}, but it follows {str(word)!r}: {why.strip()}".rstrip(": ")


def _unlike_its_seeds(finding: FindingResult, p_value: float | None) -> str:
    """Compare a p-value over seeds with the one that theirs give together."""
    stated = finding.p_value
    if None in (stated, p_value) and stated is p_value:
        return ""
    if stated is not None and p_value is not None and agree(stated, p_value):
        return ""
    return f"has p = {stated}, but its seeds give {p_value}"


def _of_claim_test(finding: FindingResult, level: float) -> str:
    """Compare the p-value of a claim on its curve with the number of guesses that refute it."""
    test = finding.claim_test
    if test is None or test.critical is None or test.v < test.critical:
        return ""
    if test.p_value <= rounded(level):  # to which a p-value just below it may be rounded
        return ""
    enough = f"{test.v} guesses right refute the claim from {test.critical} on"
    return f"has p = {test.p_value:.2g} of the claim, but {enough}"


def _of_bound(bound: EpsilonLower | None) -> str:
    """Compare a bound on ε with what its own evidence gives."""
    if bound is None:
        return ""
    shown = bounds.at_delta(bound, bound.delta)
    if agree(bound.value, shown):
        return ""
    return f"has the bound ε = {bound.value:g}, but its own evidence gives {shown:.6g}"


def _of_ledger(finding: FindingResult) -> str:
    """Compare a test of a ledger with the figure that it is of."""
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
        p = rounded(1.0 / max(1.0, value))
        if test.p_value != p:
            return f"has p = {test.p_value:.2g} of the charges, but its wealth gives {p:.2g}"
    return ""


def _name(finding: FindingResult) -> str:
    return repr(f"{finding.attack}.{finding.metric}")  # whatever the file holds, one line


def _overall(joined: ReleaseResult | Cell, claim: Guarantee, word: Leaked) -> str:
    """Compare the answers of a release, or of a setting, with those that follow."""
    if joined.leaked != word:
        of_them = "a measure of it is a leak" if word == Leaked.LEAK else f"its measures: {word}"
        return f"it is called {str(joined.leaked)!r}, but {of_them}"
    answer = claim_overall(joined.findings, claim)
    if joined.claim != answer:
        of_them = "a measure refutes it" if answer == OnClaim.REFUTED else f"its measures: {answer}"
        return f"its claim is called {str(joined.claim)!r}, but {of_them}"
    if joined.silence != silence_over(joined.findings):
        return "its contact, sight and reach are not those of its measures"
    return ""


def _of_accounting(guarantee: Guarantee) -> str:
    """Compare ε, δ and the relation with the accounting that is stored beside them."""
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
    if claimed < delta:
        return f"δ = {claimed:g} is claimed, and the accounting is for {delta:g}"
    if guarantee.epsilon < epsilon and not agree(guarantee.epsilon, epsilon):
        return f"ε = {guarantee.epsilon:g} is claimed, and its own accounting gives {epsilon:.6g}"
    return ""
