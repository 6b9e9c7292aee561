"""Both answers as readers see them: labels, meanings, and shapes, so that none needs colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from audit.core.terms import Leaked, OnClaim
from audit.results import silence
from audit.results.badge import Badge
from audit.results.schema import FindingResult, ReleaseResult
from reports._content import wording

LEAK, INSIDERS = str(Leaked.LEAK), str(Leaked.INSIDERS)
REMOVED = f"not measured, {silence.REMOVED}"
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
_DOT = '<circle cx="6" cy="{}" r="2.4" fill="currentColor"/>'
_WORST = f'<path d="{_TRIANGLE}" fill="currentColor"/>'
_LEAK = '<circle cx="6" cy="6" r="4.6" fill="currentColor"/>'
_INSIDE = f'<circle cx="6" cy="6" r="4.6" {_LINE}/>{_DOT.format("6")}'
_NONE = f'<circle cx="6" cy="6" r="4" {_LINE}/>'
_HALF = f'{_NONE}<path d="M6 2a4 4 0 0 1 0 8z" fill="currentColor"/>'
SHAPES = {  # of labels and badges; a dash where there is no answer
    **dict.fromkeys(MEANINGS, f'<path d="M2 6h8" {_LINE}/>'),
    LEAK: _LEAK,
    INSIDERS: _INSIDE,
    "no leak found": _NONE,
    "inconclusive": _HALF,
    REFUTED: _WORST,
    "claim not refuted": f'<path d="M6 2 10.6 10.4H1.4z" {_LINE}/>',
    Badge.REFUTED: _WORST,
    Badge.LEAK: _LEAK,
    Badge.PERMITTED: f'<path d="{_TRIANGLE}" {_LINE}/>{_DOT.format("7.4")}',
    Badge.INSIDERS: _INSIDE,
    Badge.INCONCLUSIVE: _HALF,
    Badge.NONE_FOUND: _NONE,
}


def measured(finding: FindingResult) -> str:
    """Write the value of a finding with its interval; a leak may be known without one."""
    known = finding.value is not None or not finding.leaked.detected
    return wording.value(finding) if known else "within bounds only"


def leaked(finding: FindingResult) -> str:
    """Write what leaked."""
    if finding.removed:
        return REMOVED
    searched = finding.charge_test is None or not finding.charge_test.queries
    return str(finding.leaked) if searched else NO_SEARCH


def claim(answered: FindingResult | ReleaseResult) -> str:
    """Write an answer on a claim."""
    return _CLAIMS[answered.claim]


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
        for label, shape in SHAPES.items()
    }


def on_paper() -> dict[str, str]:
    """Map each label and badge to an SVG document in fixed colours."""
    return {label: _document(label, "#1d2024") for label in SHAPES}


def badges_on_paper() -> dict[str, str]:
    """Map each badge to an SVG document in the colour of its word."""
    open_ = {Badge.INCONCLUSIVE: "#7a5300"}
    return {word: _document(word, open_.get(word, "#1f5673")) for word in Badge}


def _document(label: str, calm: str) -> str:
    shape = SHAPES[label].replace("currentColor", "#9b2c1f" if label in ALARMS else calm)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">{shape}</svg>'
