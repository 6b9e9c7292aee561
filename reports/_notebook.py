"""A run at a glance for a notebook: a headline, a small table and one picture, as inline HTML.

A notebook holds many of them in one page, so nothing in it has a name that could meet another's.
It brings no script, no style sheet and no link.
"""

from __future__ import annotations

import copy
import html
from xml.etree import ElementTree

from audit.results.schema import Results
from reports._content import glance, page, wording
from reports._content.figure import Figure
from reports._content.worst import MOST_ROWS, worst
from reports._figures import leaks
from reports._figures.svg import SVG

_CAPTION, _ALTERNATIVE = 300, 2000  # characters
_PAPER = "background:#fff;color:#1d2024"  # in a dark notebook too, or its picture could not be read
_BOX = f"{_PAPER};max-width:60rem;padding:.5rem"
_CELL = f"{_PAPER};text-align:left;vertical-align:top;padding:.15rem .6rem .15rem 0"
_FIGURE = "margin:.6rem 0 0;max-width:36rem"


def markup(results: Results) -> str:
    """Return the HTML; the same results give the same text. All that varies is escaped."""
    seen = glance.glance(results)
    rest = f"<p>{html.escape(seen.rest)}</p>" if seen.rest else ""
    table = _table(seen.lines) if seen.lines else ""
    head = f"<p><strong>{html.escape(seen.badge)}</strong></p><p>{html.escape(seen.headline)}</p>"
    return f'<div style="{_BOX}">{head}{table}{rest}{_picture(results)}</div>'


def _table(lines: list[glance.Line]) -> str:
    head, *rest = (_row(line, "th" if line is glance.HEAD else "td") for line in
                   [glance.HEAD, *lines])  # fmt: skip
    return f"<table><thead>{head}</thead><tbody>{''.join(rest)}</tbody></table>"


def _row(line: glance.Line, tag: str) -> str:
    cells = (line.name, line.claimed, line.leaked, line.claim, line.found, line.perplexity)
    written = (f'<{tag} style="{_CELL}">{html.escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{''.join(written)}</tr>"


def _picture(results: Results) -> str:
    figure = _first(results)
    if figure is None:
        return ""
    root = without_names(figure.svg)
    root.set("role", "img")
    root.set("aria-label", wording.clip(figure.alternative, _ALTERNATIVE))
    root.set("font-family", "sans-serif")
    drawing = ElementTree.tostring(root, encoding="unicode")
    words = html.escape(wording.clip(f"{figure.title}. {figure.caption}", _CAPTION))
    return f'<figure style="{_FIGURE}">{drawing}<figcaption>{words}</figcaption></figure>'


def _first(results: Results) -> Figure | None:
    """Draw the first picture of page one, of as many releases as one drawing holds."""
    views = glance.views(results)
    places = worst(views, MOST_ROWS)
    chosen = page.inert(results.model_copy(update={"releases": [views[i] for i in places],
                                                   "sweep": None})).releases  # fmt: skip
    order = sorted(chosen, key=lambda release: release.reference)
    return next(leaks.figures(order, page.labels(order)), None)


def without_names(drawing: str) -> ElementTree.Element:
    """Copy each shape to where it is used: a drawing without ids cannot meet those of another."""
    root = ElementTree.fromstring(drawing)
    shapes = {element.get("id"): element for element in root.iter() if element.get("id")}
    for parent in list(root.iter()):
        parent[:] = [
            _placed(child, shapes) if child.tag == f"{{{SVG}}}use" else child
            for child in parent
            if child.tag != f"{{{SVG}}}defs"
        ]
    for element in root.iter():
        element.attrib.pop("id", None)
    return root


def _placed(
    use: ElementTree.Element, shapes: dict[str | None, ElementTree.Element]
) -> ElementTree.Element:
    """Copy a shape to the place of its use, in the colours of its use."""
    attributes = dict(use.attrib)
    x, y = attributes.pop("x", "0"), attributes.pop("y", "0")
    shape = shapes.get(attributes.pop("href", "")[1:])
    move = f"{attributes.pop('transform', '')} translate({x} {y})".strip()
    group = ElementTree.Element(f"{{{SVG}}}g", {**attributes, "transform": move})
    if shape is not None:
        group.append(copy.deepcopy(shape))
    return group
