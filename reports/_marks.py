"""What the verdicts mean, and their shapes: a verdict is never read by its colour."""

from __future__ import annotations

from reports._svg import PRINT

VERDICTS = {
    "refuted": "the attack measured more than the claim allows",
    "consistent": "the attack measured something the claim does not rule out",
    "silent": "the attack found nothing above its controls; its power says what it could have seen",
    "not comparable": "a leak, but no test of the claim: another unit, relation, order or access",
    "not measured": "the release, or this run, does not give what the measurement needs",
    "inconclusive": "controls or trials do not suffice to say",
}
ALARM = "#9b2c1f"
SHAPES = {
    "refuted": '<path d="M6 .8 11.6 11H.4z" fill="currentColor"/>',
    "consistent": '<circle cx="6" cy="6" r="4.6" fill="currentColor"/>',
    "silent": '<circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.5"/>',
    "not comparable": '<path d="M6 1.2 10.8 6 6 10.8 1.2 6z" fill="none" stroke="currentColor" '
    'stroke-width="1.4"/>',
    "not measured": '<path d="M2 6h8" stroke="currentColor" stroke-width="1.8"/>',
    "inconclusive": '<circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" '
    'stroke-width="1.5"/><path d="M6 2a4 4 0 0 1 0 8z" fill="currentColor"/>',
}


def on_screen() -> dict[str, str]:
    """Verdict to an inline SVG element in the colour of the text around it."""
    return {
        verdict: f'<svg class="mark" viewBox="0 0 12 12" aria-hidden="true">{shape}</svg>'
        for verdict, shape in SHAPES.items()
    }


def on_paper() -> dict[str, str]:
    """Verdict to an SVG file's text in fixed colours."""
    return {
        verdict: '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 12 12">'
        + shape.replace("currentColor", ALARM if verdict == "refuted" else PRINT["ink"])
        + "</svg>"
        for verdict, shape in SHAPES.items()
    }
