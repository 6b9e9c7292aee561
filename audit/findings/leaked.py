"""First answer of a finding, in a word and a sentence: what leaked."""

from __future__ import annotations

from collections.abc import Mapping

from audit.core.terms import Leaked
from audit.findings.case import LEVEL
from audit.findings.rejections import Rejections, is_confounded, test_of
from audit.results.measurement import ChargeTest, Measurement
from audit.results.words import at_least, percent_at_most

NOTICED = 0.5  # a rate of hits; where only higher ones would be noticed, silence shows nothing
Sensitive = Mapping[tuple[str, str], bool]


def leaked(
    finding: Measurement, rejections: Rejections, sensitive: Sensitive | None
) -> tuple[Leaked, str]:
    """Answer what leaked: a rejected test is a leak, whatever the displayed value looks like.

    sensitive: by (attack, metric), whether the positive control leaked in this run; None where the
    run has no references. Silence of an attack that finds no leak anywhere shows nothing.
    """
    test = test_of(finding)
    if finding.charge_test is not None:
        return Leaked.NOT_MEASURED, _no_search(finding, finding.charge_test)
    if finding.value is None and test in rejections.measured:
        return Leaked.NOT_MEASURED, _unmeasured(finding)
    if test in rejections.confounded:
        return Leaked.INCONCLUSIVE, "The candidates can be told apart without the model."
    if test in rejections.leaking:
        word = Leaked.INSIDERS if finding.stronger_than_release else Leaked.LEAK
        return word, _leak(word, finding, rejections)
    if finding.value is None:
        return Leaked.NOT_MEASURED, _unmeasured(finding)
    why = _unsure(finding, rejections, sensitive)
    if why:
        return Leaked.INCONCLUSIVE, why
    return Leaked.NONE_FOUND, f"Not told apart from chance. {_reach(finding)}".strip()


def _leak(word: Leaked, finding: Measurement, rejections: Rejections) -> str:
    p = rejections.leaking[test_of(finding)]
    sentence = f"A {word} (adjusted p = {p:.2g})"
    if finding.value is None:
        sentence += ", by the bounds of what was measured"
    elif not above_chance(finding):
        sentence += ", by the test of all planted secrets together: this figure alone hides it"
    if finding.stronger_than_release:
        sentence += "; the release itself gives less access"
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


def _unsure(finding: Measurement, rejections: Rejections, sensitive: Sensitive | None) -> str:
    """Explain why finding no leak shows nothing; empty where it does."""
    least = finding.least_p
    if finding.untrained:
        return f"{finding.untrained} What was not trained on cannot leak."
    if sensitive is None:
        return "Without references no leak could be told from none."
    if finding.p_value is None or least * rejections.family.tests >= LEVEL:
        return finding.untested or "Too little was measured for any test."
    rate = finding.power.detectable_rate
    if rate is not None and rate > NOTICED:
        return f"So few tries would notice a leak only from a rate of {percent_at_most(rate)} on."
    if suspicious(finding):
        return "More than chance, but not beyond doubt once adjusted for all tests."
    if not sensitive.get((finding.attack, finding.metric), False):
        return "The undefended model did not leak here: silence shows nothing."
    return ""


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


def _reach(finding: Measurement) -> str:
    """State what the run could have shown."""
    rate, largest = finding.power.detectable_rate, finding.power.largest_epsilon
    if rate is not None and finding.k is not None:
        most = percent_at_most(rate)
        return f"A rate of {most} over different secrets would have been called a leak (95 %)."
    if largest and finding.epsilon_lower is not None:
        return f"A claim of up to ε = {at_least(largest)} nats could have been refuted."
    return ""
