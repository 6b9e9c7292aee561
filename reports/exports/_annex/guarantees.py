"""Rows that are answered by what is claimed: ε, δ, unit, relation, conditions, and their tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from audit.core.terms import OnClaim, Unit
from audit.results import words
from audit.results.schema import FindingResult, GuaranteeResult
from reports._content import claims as bounds
from reports._content import verdicts, wording
from reports.exports._annex.document import Answer, Fact
from reports.exports._annex.measures import figure, quotes
from reports.exports._annex.rows import Asked
from reports.exports._annex.view import Evidence, One, View

NO_CLAIM = "no ε is claimed"
_ANSWERS = {
    OnClaim.REFUTED: Answer.REFUTED,
    OnClaim.UNKNOWN: Answer.UNKNOWN,
    OnClaim.NOT_TESTABLE: Answer.NOT_TESTED,
    OnClaim.NOTHING_CLAIMED: Answer.NOTHING_CLAIMED,
    OnClaim.NOT_REFUTED: Answer.NOT_REFUTED,
}  # the worst first
_WHOLE = (Unit.USER, Unit.ONE_RECORD)


def claimed(guarantee: GuaranteeResult) -> str:
    """Describe a claim with its unit and relation, or state that there is none."""
    if guarantee.epsilon is not None and math.isinf(guarantee.epsilon):
        return NO_CLAIM
    return wording.claim(guarantee)


def claims(view: View, asked: Asked) -> Evidence:
    """List each claimed ε, and the largest lower bound measured beside it."""
    facts = [fact for one in view.shown for fact in (_claim(one), *_bound(one))]
    return _recorded(view, facts, "promised", "epsilon")


def _claim(one: One) -> Fact:
    answer = verdicts.claim(one.release)
    return Fact(term=one.name, text=f"{claimed(one.release.guarantee)}; {answer}")


def _bound(one: One) -> list[Fact]:
    """Return the largest lower bound on ε that an attack showed, and its answer on the claim."""
    largest = bounds.largest(one.release)
    if largest is None:
        return []
    finding, bound = largest
    conclusion = bounds.conclusion(one.release.guarantee, finding, bound)
    text = f"{bounds.explained(bound)} ({wording.measurement(finding)}). {conclusion}"
    return [Fact(term=f"{one.name}, measured", text=text)]


def _recorded(view: View, facts: Sequence[Fact], *fragments: str) -> Evidence:
    """Answer by what is on record; a refuted, an absent and an unknown claim are named first."""
    stated = {one.release.claim for one in view.audited}
    absent = {_absent(one.release.guarantee) for one in view.audited}
    answer = Answer.RECORDED if facts else Answer.NOT_COVERED
    for bad in (Answer.UNKNOWN, Answer.NOTHING_CLAIMED):
        answer = bad if bad in absent else answer
    answer = Answer.REFUTED if OnClaim.REFUTED in stated else answer
    note = "" if view.audited else "No release was audited."
    return Evidence(answer, list(facts), [], view.sections(*fragments), note)


def _absent(guarantee: GuaranteeResult) -> Answer | None:
    if guarantee.epsilon is None:
        return Answer.UNKNOWN
    return Answer.NOTHING_CLAIMED if math.isinf(guarantee.epsilon) else None


def _each(view: View, text: Callable[[GuaranteeResult], str]) -> Evidence:
    """Describe one side of each claim."""
    facts = []
    for one in view.shown:
        guarantee = one.release.guarantee
        worded = claimed(guarantee) if _absent(guarantee) else text(guarantee)
        facts.append(Fact(term=one.name, text=worded))
    return _recorded(view, facts, "promised")


def delta(view: View, asked: Asked) -> Evidence:
    """List δ beside the number of units that a mechanism was made for."""
    return _each(view, _delta)


def _delta(guarantee: GuaranteeResult) -> str:
    if guarantee.delta is None:
        order = guarantee.alpha is not None
        return "no δ: a Rényi divergence is claimed" if order else "no δ is stated"
    text = f"δ = {words.at_most(guarantee.delta)}"
    units = guarantee.population
    if not units:
        return f"{text}; the number of units is not on record"
    expected = guarantee.delta * units
    warning = "; this permits publishing one person's data outright" if expected >= 1 else ""
    return f"{text}; N = {words.integer(units)}; δ·N = {words.at_most(expected)}{warning}"


def unit(view: View, asked: Asked) -> Evidence:
    """List what each claim hides as a whole."""
    return _each(view, _unit)


def _unit(guarantee: GuaranteeResult) -> str:
    text = wording.per_unit(guarantee.unit, guarantee.relation)
    also = "".join(f", also {wording.spelled(relation)}" for relation in guarantee.also)
    smaller = "" if guarantee.unit in _WHOLE else "; nothing is claimed per user"
    return f"{text}{also}{smaller}"


def comparing(view: View, asked: Asked) -> Evidence:
    """Explain whether the claims of the run can be ranked."""
    kept = [one.release.guarantee for one in view.audited if not _absent(one.release.guarantee)]
    scopes = {(g.unit, g.relation, g.delta, g.alpha, g.basis) for g in kept}
    reason = "they differ in unit, relation, δ, order or basis, so their ε cannot be ranked"
    if len(kept) < 2:
        reason = "there are not two to compare"
    elif len(scopes) == 1:
        reason = "they have one unit, relation, δ, order and basis"
    facts = [Fact(term="Claims", text=f"{words.count(len(kept), 'finite claim')}: {reason}")]
    each = _each(view, claimed)
    return Evidence(each.answer, [*facts, *each.facts], [], each.places, each.note)


def conversion(view: View, asked: Asked) -> Evidence:
    """List what each ε was computed from."""
    return _each(view, _conversion)


def _conversion(guarantee: GuaranteeResult) -> str:
    if guarantee.alpha is not None:
        return f"stated as it was computed: Rényi order α = {words.number(guarantee.alpha)}"
    if guarantee.accounting is None:
        return "what ε was computed from is not on record"
    return f"computed from {wording.clip(wording.setting(guarantee.accounting), 400)}"


def conditions(view: View, asked: Asked) -> Evidence:
    """List the theorem behind each claim, and its conditions."""
    return _each(view, lambda g: "; ".join([g.theorem, *g.conditions]))


def implementation(view: View, asked: Asked) -> Evidence:
    """Answer by the tests of the claims."""
    stated = {one.release.claim for one in view.audited}
    answer = next((a for word, a in _ANSWERS.items() if word in stated), Answer.NOT_COVERED)
    if view.partial and answer == Answer.NOT_REFUTED:
        answer = Answer.INCONCLUSIVE
    pairs = [(one, finding) for one in view.shown for finding in _tested(one)]
    facts = [
        *(_claim(one) for one in view.shown),
        *(Fact(term=f"{one.name}, {wording.spelled(f.attack)}", text=f.claim_sentence)
          for one, f in pairs if f.claim_sentence),
    ]  # fmt: skip
    figures = [figure(one.release, one.name, finding) for one, finding in pairs]
    return Evidence(answer, facts, figures, view.sections("epsilon", "promised"))


def _tested(one: One) -> list[FindingResult]:
    """Return the findings by which the tests of a claim are quoted, one or two an attack."""
    tested = (OnClaim.REFUTED, OnClaim.NOT_REFUTED)
    return quotes([f for f in one.release.findings if f.claim in tested])
