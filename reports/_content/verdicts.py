"""Verdicts as readers see them: a label, its meaning, and a shape, so that none needs colour."""

from __future__ import annotations

import math

from audit.core.terms import Verdict

REFUTED = "claim refuted"
WITHIN = "leak, within the claim"
NOTHING_PROMISED = "leak (nothing was promised)"
UNTESTED = "leak, no test of the claim"
NO_LEAK = "no leak found"
_LABELS = {
    Verdict.REFUTED: REFUTED,
    Verdict.CONSISTENT: WITHIN,
    Verdict.NOT_COMPARABLE: UNTESTED,
    Verdict.SILENT: NO_LEAK,
}
# In the order of the page's key; in brackets the word of results.json where it differs.
MEANINGS = {
    REFUTED: "The attack measured more than the claim allows (refuted).",
    WITHIN: "The attack measured a leak that the claim does not rule out (consistent).",
    NOTHING_PROMISED: "The attack measured a leak, and no promise forbids it (consistent).",
    UNTESTED: "A leak, measured with another unit, relation, order or access than the claim has "
    "(not comparable).",
    NO_LEAK: "Nothing was above the controls; the power says what could have been seen (silent).",
    "not measured": "The release, or this run, does not offer what the measurement needs.",
    "inconclusive": "The controls or the trials do not suffice for an answer.",
}
_LINE = 'fill="none" stroke="currentColor" stroke-width="1.5"'
_SHAPES = {
    REFUTED: '<path d="M6 .8 11.6 11H.4z" fill="currentColor"/>',
    WITHIN: '<circle cx="6" cy="6" r="4.6" fill="currentColor"/>',
    NOTHING_PROMISED: '<circle cx="6" cy="6" r="4.6" fill="currentColor"/>',
    UNTESTED: f'<path d="M6 1.2 10.8 6 6 10.8 1.2 6z" {_LINE}/>',
    NO_LEAK: f'<circle cx="6" cy="6" r="4" {_LINE}/>',
    "not measured": f'<path d="M2 6h8" {_LINE}/>',
    "inconclusive": f'<circle cx="6" cy="6" r="4" {_LINE}/>'
    '<path d="M6 2a4 4 0 0 1 0 8z" fill="currentColor"/>',
}


def label(verdict: str, epsilon: float | None) -> str:
    """Words a verdict on a claim of ε (nats; infinite: nothing was promised) for readers."""
    if verdict == Verdict.CONSISTENT and epsilon is not None and math.isinf(epsilon):
        return NOTHING_PROMISED
    return _LABELS.get(Verdict(verdict), str(verdict))


def on_screen() -> dict[str, str]:
    """Maps each label to an inline SVG element in the colour of the text around it."""
    return {
        label: f'<svg class="mark" viewBox="0 0 12 12" aria-hidden="true">{shape}</svg>'
        for label, shape in _SHAPES.items()
    }


def on_paper() -> dict[str, str]:
    """Maps each label to an SVG document in fixed colours."""
    return {
        label: '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">'
        + shape.replace("currentColor", "#9b2c1f" if label == REFUTED else "#1d2024")
        + "</svg>"
        for label, shape in _SHAPES.items()
    }
