"""First answer of a finding, in a word and a sentence: what leaked."""

from __future__ import annotations

from audit.core.terms import Leaked
from audit.findings import exhibits
from audit.findings.rejections import Rejections, test_of
from audit.findings.shows import first_missing
from audit.results.measurement import Measurement
from audit.results.silence import Silence
from audit.results.words import at_least


def leaked(finding: Measurement, rejections: Rejections, silence: Silence) -> tuple[Leaked, str]:
    """Answer what leaked: a rejected test is a leak, whatever the displayed value looks like.

    silence: the conditions of "no leak found". All must be shown: no default, missing value or
    positive control of another measure turns a null result into reassurance.
    """
    test = test_of(finding)
    if finding.charge_test is not None:
        looked = "It looks for no planted secret." if finding.charge_test.queries else ""
        return Leaked.NOT_MEASURED, looked or _unmeasured(finding)
    if finding.exhibit is not None and finding.value is not None:
        return exhibits.leaked(finding.exhibit, finding.k or 0)
    if finding.value is None and test in rejections.measured:
        return Leaked.NOT_MEASURED, _unmeasured(finding)
    if test in rejections.leaking:
        return word_of(finding), _leak(finding, rejections, silence)
    if finding.value is None:
        return Leaked.NOT_MEASURED, _unmeasured(finding)
    if finding.p_value is not None and finding.adjusted_p is None:
        return Leaked.INCONCLUSIVE, "Its p-value is not adjusted for the other tests."
    if test in rejections.grey:
        p, tests = rejections.grey[test], rejections.family.tests
        alone = "" if finding.look_p is None else f"; for this look alone, {finding.look_p:.2g}"
        chance = f"adjusted p = {p:.2g}, one of {tests} tests{alone}"
        return Leaked.INCONCLUSIVE, f"{GREY_ZONE} ({chance})."
    if silence.contact.removed:
        by = silence.contact.by
        return Leaked.NOT_MEASURED, f"Not measured, {by[:1].lower()}{by[1:]}"
    missing = first_missing(silence)
    if missing is not None:
        return Leaked.INCONCLUSIVE, _sentence(missing.by)
    parts = (silence.reach.by, _bounded(finding, rejections))
    sentence = " ".join(part for part in parts if part)
    return Leaked.NONE_FOUND, f"Not told apart from chance{_among(rejections)}. {sentence}".strip()


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


GREY_ZONE = "More than chance, but not beyond doubt"


def _among(rejections: Rejections) -> str:
    """State the smallest p-value, and of how many tests it is one."""
    if rejections.least is None:
        return ""
    tests = rejections.family.tests
    return f" (smallest unadjusted p = {rejections.least:.2g}, one of {tests})"


def _bounded(finding: Measurement, rejections: Rejections) -> str:
    """Qualify a bound on ε above 0 beside silence: it is adjusted for no other."""
    bound = finding.epsilon_lower
    if bound is None or bound.value <= 0.0:
        return ""
    return (
        f"Its bound, ε ≥ {at_least(bound.value)} nats, is one of {rejections.bounds}, unadjusted."
    )


def word_of(detected: Measurement) -> Leaked:
    """Return the word for a measurement whose test is rejected."""
    return Leaked.INSIDERS if detected.stronger_than_release else Leaked.LEAK


def _leak(finding: Measurement, rejections: Rejections, silence: Silence) -> str:
    p = rejections.leaking[test_of(finding)]
    sentence = f"A {word_of(finding)} (adjusted p = {p:.2g})"
    if finding.value is None:
        sentence += ", by the bounds of what was measured"
    elif not above_chance(finding):
        sentence += ", by the test of all planted secrets together: this figure alone hides it"
    if finding.stronger_than_release:
        sentence += "; the release itself gives less access"
    if not silence.contact.shown:
        sentence += "; contact not shown"
    return f"{sentence}.{_told_apart(finding)}"


def _told_apart(finding: Measurement) -> str:
    """Mention that a classifier without the model separates the candidates, perhaps as well as it.

    An AUC of 0.1 separates as well as one of 0.9. With fair coins it is an accident, no objection.
    """
    blind = None if finding.blind is None else finding.blind.ci
    if blind is None or blind[0] <= 0.5 <= blind[1]:
        return ""
    if finding.ci is not None:
        at_least = max(finding.ci[0] - 0.5, 0.5 - finding.ci[1])
        if at_least > max(blind[1] - 0.5, 0.5 - blind[0]):
            return ""
    return " The candidates also differ without the model, by accident of the coins."


def above_chance(finding: Measurement) -> bool:
    """Return whether the displayed value is on the side of a leak, of chance and of the twins."""
    if finding.value is None or finding.unit == "AUC":  # below one half is as far from chance
        return True
    known = [finding.chance, None if finding.control is None else finding.control.value]
    return all(value is None or finding.value > value for value in known)


def _unmeasured(finding: Measurement) -> str:
    if finding.observation:
        return ""  # the observation says why
    why = finding.method
    return f"It {why}." if why.startswith("needs") else "Nothing was answered to measure it on."
