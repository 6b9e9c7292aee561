"""report.html: one file without scripts or outside requests, for a screen of any width."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from audit.results import Results

FILENAME = "report.html"
_TEMPLATES = Path(__file__).parent / "_templates"


def write(results: Results, folder: Path) -> Path:
    """Writes report.html into `folder`."""
    path = folder / FILENAME
    path.write_text(render(results), encoding="utf-8", newline="\n")
    return path


def render(results: Results) -> str:
    """The page as text; the same results give the same bytes."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from reports import _marks, _page, _svg, _sweep

    page, figures = (_page if results.sweep is None else _sweep).content(results)
    css = (_TEMPLATES / "report.css").read_text(encoding="utf-8").strip()
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        page=page,
        figures=figures,
        drawing=_svg.on_screen,
        marks=_marks.on_screen(),
        css=css,
        css_hash=_digest(css),
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
