"""Both answers as readers see them: labels, meanings, and shapes, so that none needs colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from audit.core.terms import Leaked, OnClaim
from audit.results import measurement, words
from audit.results.badge import Badge
from audit.results.schema import FindingResult

LEAK, INSIDERS = str(Leaked.LEAK), str(Leaked.INSIDERS)
REMOVED = f"not measured, {measurement.REMOVED}"
REFUTED, NO_SEARCH = "claim refuted", "no search for leaks"
ALARMS = (
    LEAK, INSIDERS, REFUTED,
    Badge.REFUTED, Badge.LEAK, Badge.PERMITTED, Badge.INSIDERS,
)  # fmt: skip
_CLAIMS = {
    OnClaim.REFUTED: REFUTED,
    OnClaim.NOT_REFUTED: "claim not refuted",
    OnClaim.NOT_TESTABLE: "claim not tested",
    OnClaim.NOTHING_CLAIMED: "nothing claimed",
    OnClaim.UNKNOWN: "claim unknown",
}
MEANINGS = {
    LEAK: "A test found that the release depends on what was planted, whatever was promised.",
    INSIDERS: "A test found that the release depends on what was planted, for those who have more "
    "access to it than it gives.",
    "no leak found": "Nothing was told apart from chance, where contact, sight and reach were "
    "shown. Never a proof that nothing leaks.",
    "inconclusive": "The controls or the trials do not suffice for an answer.",
    "not measured": "The release, or this run, does not offer what the measurement needs.",
    REMOVED: "Nothing of what was planted was in the text that was trained on. What the removal "
    "misses is not covered.",
    NO_SEARCH: "It compares what is charged with what is told, and looks for no planted secret.",
    REFUTED: "More was measured than the claim allows.",
    "claim not refuted": "The claim allows what was measured, which is no proof of it.",
    "claim not tested": "The measure is of another unit, relation, order or access than the claim, "
    "or no outcome of so few trials could have refuted it.",
    "nothing claimed": "No ε was promised, so nothing can be refuted.",
    "claim unknown": "What was promised is not known.",
}
_LINE = 'fill="none" stroke="currentColor" stroke-width="1.5"'
_TRIANGLE = "M6 .8 11.6 11H.4z"
SHAPES = {
    LEAK: '<circle cx="6" cy="6" r="4.6" fill="currentColor"/>',
    INSIDERS: f'<circle cx="6" cy="6" r="4.6" {_LINE}/>'
    '<circle cx="6" cy="6" r="2.4" fill="currentColor"/>',
    "no leak found": f'<circle cx="6" cy="6" r="4" {_LINE}/>',
    "inconclusive": f'<circle cx="6" cy="6" r="4" {_LINE}/>'
    '<path d="M6 2a4 4 0 0 1 0 8z" fill="currentColor"/>',
    "not measured": f'<path d="M2 6h8" {_LINE}/>',
    REMOVED: f'<path d="M2 6h8" {_LINE}/>',
    NO_SEARCH: f'<path d="M2 6h8" {_LINE}/>',
    REFUTED: f'<path d="{_TRIANGLE}" fill="currentColor"/>',
    "claim not refuted": f'<path d="M6 2 10.6 10.4H1.4z" {_LINE}/>',
    "claim not tested": f'<path d="M2 6h8" {_LINE}/>',
    "nothing claimed": f'<path d="M2 6h8" {_LINE}/>',
    "claim unknown": f'<path d="M2 6h8" {_LINE}/>',
}


def badges() -> dict[str, str]:
    """Map each badge to the SVG shapes of its verdict."""
    inside = '<circle cx="6" cy="7.4" r="2.4" fill="currentColor"/>'
    permitted = f'<path d="{_TRIANGLE}" {_LINE}/>{inside}'
    return {
        Badge.REFUTED: SHAPES[REFUTED],
        Badge.LEAK: SHAPES[LEAK],
        Badge.PERMITTED: permitted,
        Badge.INSIDERS: SHAPES[INSIDERS],
        Badge.INCONCLUSIVE: SHAPES["inconclusive"],
        Badge.NONE_FOUND: SHAPES["no leak found"],
    }


def measured(finding: FindingResult) -> str:
    """Write the value of a finding with its interval; a leak may be known without one."""
    if finding.value is None and finding.leaked.detected:
        return "within bounds only"
    return words.measured(finding.value, finding.ci, finding.unit)


def leaked(finding: FindingResult) -> str:
    """Write what leaked."""
    if finding.removed:
        return REMOVED
    searched = finding.charge_test is None or not finding.charge_test.queries
    return str(finding.leaked) if searched else NO_SEARCH


def claim(finding: FindingResult) -> str:
    """Write a finding's answer on the claim."""
    return of_claim(finding.claim)


def of_claim(claim: OnClaim) -> str:
    """Write an answer on a claim."""
    return _CLAIMS[claim]


def both(finding: FindingResult) -> str:
    """Write both answers on one line."""
    return f"{leaked(finding)}; {claim(finding)}"


def alarming(finding: FindingResult) -> bool:
    """Return whether a finding is a leak, a refutation, or measured and still open."""
    loud = finding.leaked.detected or finding.claim == OnClaim.REFUTED
    return loud or (finding.leaked == Leaked.INCONCLUSIVE and finding.value is not None)


def tally(findings: Sequence[FindingResult]) -> str:
    """Count the answers of several findings; empty where there is only one."""
    if len(findings) < 2:
        return ""
    counts = Counter(leaked(f) for f in findings)
    refuted = sum(f.claim == OnClaim.REFUTED for f in findings)
    refute = "refutes" if refuted == 1 else "refute"
    extra = f"; {refuted} {refute} the claim" if refuted else ""
    if len(counts) == 1:
        return f"{len(findings)} measures, all: {leaked(findings[0])}{extra}"
    parts = [f"{counts[word]}\u00a0×\u00a0{word}" for word in MEANINGS if counts[word]]
    return f"{len(findings)} measures: {' · '.join(parts)}{extra}"


def on_screen() -> dict[str, str]:
    """Map each label and badge to an inline SVG element in the colour of the text around it."""
    return {
        label: f'<svg class="mark" viewBox="0 0 12 12" aria-hidden="true">{shape}</svg>'
        for label, shape in {**SHAPES, **badges()}.items()
    }


def on_paper() -> dict[str, str]:
    """Map each label and badge to an SVG document in fixed colours."""
    return {
        label: _document(shape, "#9b2c1f" if label in ALARMS else "#1d2024")
        for label, shape in {**SHAPES, **badges()}.items()
    }


def badges_on_paper() -> dict[str, str]:
    """Map each badge to an SVG document in the colour of its word."""
    colours = {Badge.INCONCLUSIVE: "#7a5300", Badge.NONE_FOUND: "#1f5673"}
    return {word: _document(s, colours.get(Badge(word), "#9b2c1f")) for word, s in badges().items()}


def _document(shape: str, colour: str) -> str:
    shape = shape.replace("currentColor", colour)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">{shape}</svg>'
