"""Draws where a measure lies between chance and certain: one line high, beside its numbers."""

from __future__ import annotations

from reports._content import verdicts
from reports._content.strip import Strip
from reports._figures import svg

_WIDTH, _HEIGHT, _EDGE = 220.0, 18.0, 8.0
_SHAPE = 12.0  # side of a mark


def draw(strip: Strip) -> str:
    """Return the SVG, in the colours of figures. It repeats numbers, so it has no words."""
    middle = _HEIGHT / 2
    parts = [_line(0.0, middle, 1.0, svg.RULE, 1.2), _line(0.0, 3, 0.0, svg.MUTED, 1, _HEIGHT - 3)]
    if strip.twins is not None:
        low, high = map(_x, strip.twins)
        parts.append(
            f'<rect x="{low - 1.5:.1f}" y="2" width="{high - low + 3:.1f}" height="{_HEIGHT - 4}" '
            f'fill="{svg.RULE}"/>'
        )
    if strip.undefended is not None:
        parts.append(_line(strip.undefended, 1, strip.undefended, svg.INK, 2, _HEIGHT - 1))
    colour = svg.ALARM if strip.mark in verdicts.ALARMS else svg.ACCENT
    if not strip.mark:
        width = max(_x(strip.value) - _EDGE, 1.5)
        parts.append(f'<rect x="{_EDGE}" y="5" width="{width:.1f}" height="8" fill="{colour}"/>')
    elif strip.interval is not None:
        low, high = strip.interval
        parts.append(_line(low, middle, high, colour, 2))
    body = "".join([*parts, _mark(strip, colour) if strip.mark else ""])
    return f'<svg xmlns="{svg.SVG}" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" fill="none">{body}</svg>'


def _x(share: float) -> float:
    return _EDGE + share * (_WIDTH - 2 * _EDGE)


def _line(
    start: float, top: float, end: float, colour: str, width: float, bottom: float | None = None
) -> str:
    y2 = top if bottom is None else bottom
    return (
        f'<path d="M{_x(start):.1f} {top:g}L{_x(end):.1f} {y2:g}" stroke="{colour}" '
        f'stroke-width="{width:g}"/>'
    )


def _mark(strip: Strip, colour: str) -> str:
    """Draw the shape of the answer; hollow ones are filled with paper, so that no line crosses."""
    x, y = _x(strip.value) - _SHAPE / 2, (_HEIGHT - _SHAPE) / 2
    under = f'<circle cx="6" cy="6" r="4.4" fill="{svg.PAPER}"/>'
    shape = verdicts.SHAPES[strip.mark].replace("currentColor", colour)
    return f'<g transform="translate({x:.1f} {y:g})">{under}{shape}</g>'
