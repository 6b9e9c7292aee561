"""report.html: one file without scripts or outside requests, for a screen of any width."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from audit.results.schema import Results
from reports._content import comparison, page, sweep, verdicts
from reports._content.page import Page
from reports._figures import svg
from reports._figures.figure import Figure

FILENAME = "report.html"
COMPARISON = "comparison.html"
_TEMPLATES = Path(__file__).parent / "_templates"
# Where a name may be broken: submix_|unprotected, k=4,|epsilon=|8; never within 1,540.
_JOINTS = re.compile(r"(?<=[:,=_])(?=[^\W\d_])|(?<=[:=_])(?=\d)")


def write(results: Results, folder: Path) -> Path:
    """Writes report.html into `folder`."""
    path = folder / FILENAME
    path.write_text(render(results), encoding="utf-8", newline="\n")
    return path


def write_comparison(one: Results, other: Results, folder: Path) -> Path:
    """Writes comparison.html of two runs into `folder`."""
    path = folder / COMPARISON
    text = _laid_out(*comparison.content(one, other))
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def render(results: Results) -> str:
    """Returns the page; the same results give the same bytes."""
    return _laid_out(*(page if results.sweep is None else sweep).content(results))


def _laid_out(content: Page, figures: list[Figure]) -> str:
    return laid_out(
        "report.html.j2",
        page=content,
        figures=figures,
        drawing=svg.on_screen,
        marks=verdicts.on_screen(),
        alarms=verdicts.ALARMS,
    )


def laid_out(template: str, **values: Any) -> str:
    """Fills a template of this folder, with the one style of all pages."""
    css = (_TEMPLATES / "report.css").read_text(encoding="utf-8").strip()
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["soft"] = _soft
    return environment.get_template(template).render(css=css, css_hash=_digest(css), **values)


def _soft(name: str) -> Markup:
    """Escapes a name and marks where a narrow column may break it."""
    return Markup("<wbr>").join(_JOINTS.split(name))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
