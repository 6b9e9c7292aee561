"""A run at a glance for a notebook: a headline, a small table and one picture, as inline HTML.

A notebook holds many of them in one page, so nothing in it has a name that could meet another's.
It brings no script, no style sheet and no link.
"""

from __future__ import annotations

import html

from audit.results.schema import Results
from reports._content import glance
from reports._content.releases import MOST_ROWS, inert, named, shown, worst
from reports._figures import leaks

_PAPER = "background:#fff;color:#1d2024"  # in a dark notebook too, or its picture could not be read
_BOX = f"{_PAPER};max-width:60rem;padding:.5rem"
_CELL = f"{_PAPER};text-align:left;vertical-align:top;padding:.15rem .6rem .15rem 0"


def markup(results: Results) -> str:
    """Return the HTML; the same results give the same text. All that varies is escaped."""
    seen = glance.glance(results)
    rest = f"<p>{html.escape(seen.rest)}</p>" if seen.rest else ""
    table = seen.table.markup(_CELL) if seen.table.rows else ""
    head = f"<p><strong>{html.escape(seen.badge)}</strong></p><p>{html.escape(seen.headline)}</p>"
    return f'<div style="{_BOX}">{head}{table}{rest}{_picture(results)}</div>'


def _picture(results: Results) -> str:
    """Draw the first picture of page one, of as many releases as one drawing holds."""
    chosen = [one.release for one in worst(shown(results), MOST_ROWS)]
    clean = inert(results.model_copy(update={"releases": chosen, "sweep": None})).releases
    drawn = leaks.figures(named(sorted(clean, key=lambda release: release.reference)))
    return next((figure._repr_html_() for figure in drawn), "")
