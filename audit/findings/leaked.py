"""First answer of a finding, in a word and a sentence: what leaked."""

from __future__ import annotations

from audit.core.terms import Leaked, Shown
from audit.findings.case import LEVEL
from audit.findings.rejections import Rejections, is_confounded, test_of
from audit.findings.shows import first_missing
from audit.results.measurement import ChargeTest, Measurement, Silence


def leaked(finding: Measurement, rejections: Rejections, silence: Silence) -> tuple[Leaked, str]:
    """Answer what leaked: a rejected test is a leak, whatever the displayed value looks like.

    silence: the conditions of "no leak found". All must be shown: no default, missing value or
    positive control of another measure turns a null result into reassurance.
    """
    test = test_of(finding)
    if finding.charge_test is not None:
        return Leaked.NOT_MEASURED, _no_search(finding, finding.charge_test)
    if finding.value is None and test in rejections.measured:
        return Leaked.NOT_MEASURED, _unmeasured(finding)
    if test in rejections.confounded:
        return Leaked.INCONCLUSIVE, "The candidates can be told apart without the model."
    if test in rejections.leaking:
        return Leaked.LEAK, _leak(finding, rejections, silence)
    if finding.value is None:
        return Leaked.NOT_MEASURED, _unmeasured(finding)
    if suspicious(finding) and silence.contact.state == Shown.SHOWN:
        return Leaked.INCONCLUSIVE, SUSPICIOUS
    missing = first_missing(silence)
    if missing is not None:
        return Leaked.INCONCLUSIVE, missing.by
    return Leaked.NONE_FOUND, f"Not told apart from chance. {silence.reach.by}".strip()


SUSPICIOUS = "More than chance, but not beyond doubt once adjusted for all tests."


def _leak(finding: Measurement, rejections: Rejections, silence: Silence) -> str:
    p = rejections.leaking[test_of(finding)]
    sentence = f"A leak (adjusted p = {p:.2g})"
    if finding.value is None:
        sentence += ", by the bounds of what was measured"
    elif not above_chance(finding):
        sentence += ", by the test of all planted secrets together: this figure alone hides it"
    if finding.stronger_than_release:
        sentence += "; not of this release, which gives samples only"
    if silence.contact.state != Shown.SHOWN:
        sentence += "; contact not shown"
    return f"{sentence}.{_told_apart(finding)}"


def _told_apart(finding: Measurement) -> str:
    """Mention that candidates differ in themselves: with fair coins by accident, no objection."""
    if not is_confounded(finding.blind, finding.ci):
        return ""
    return " The candidates also differ without the model, by accident of the coins."


def above_chance(finding: Measurement) -> bool:
    """Return whether the displayed value is on the side of a leak, of chance and of the twins."""
    if finding.value is None or finding.unit == "AUC":  # below one half is as far from chance
        return True
    known = [finding.chance, None if finding.control is None else finding.control.value]
    return all(value is None or finding.value > value for value in known)


def _no_search(finding: Measurement, test: ChargeTest) -> str:
    return "It looks for no planted secret." if test.queries else _unmeasured(finding)


def _unmeasured(finding: Measurement) -> str:
    if finding.observation:
        return ""  # the observation says why
    why = finding.method
    return f"It {why}." if why.startswith("needs") else "Nothing was answered to measure it on."


def suspicious(finding: Measurement) -> bool:
    """Return whether the finding alone, unadjusted, rejects chance at 95 %."""
    p, bound, chance = finding.p_value, finding.epsilon_lower, finding.chance
    if (p is not None and p < LEVEL) or (bound is not None and bound.value > 0):
        return True
    if finding.claim_test is not None and finding.claim_test.p_value < LEVEL:
        return True  # what refutes a claim would refute chance, too
    if finding.control is not None or chance is None or finding.ci is None:
        return False
    return finding.ci[0] > chance or (finding.sides == 2 and finding.ci[1] < chance)
