"""report.html: one file without outside requests, for a screen of any width."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import Format, Report
from reports._content import verdicts
from reports._content.comparison import TwoRuns
from reports._content.figure import Figure
from reports._content.page import Page
from reports._figures import strips, svg

FILENAME = "report.html"
COMPARISON = "comparison.html"
_TEMPLATES = Path(__file__).parent / "_templates"
_SECTIONS = {
    "found": "Found",
    "promised": "Promised",
    "untested": "Not tested",
    "tested": "Tested",
    "changes": "Changes",
    "verdicts": "How to read it",
    "attacks": "Attacks",
    "epsilon": "Claims",
    "figures": "Figures",
    "releases": "Releases",
    "warnings": "Warnings",
    "cost": "Environment",
}
# Where a name may be broken: submix_|unprotected, k=4,|epsilon=|8; never within 1,540.
_JOINTS = re.compile(r"(?<=[:,=_])(?=[^\W\d_])|(?<=[:=_])(?=\d)")


@dataclass(frozen=True)
class Html(Format):
    """A page for readers, with every measure, figure and table of the run."""

    def files(self, report: Report) -> dict[str, bytes]:
        return {FILENAME: _laid_out(report.page, report.figures)}

    def compared(self, runs: TwoRuns) -> dict[str, bytes]:
        return {COMPARISON: _laid_out(runs.page, runs.figures)}


def _laid_out(content: Page, figures: Sequence[Figure]) -> bytes:
    return laid_out(
        "report.html.j2",
        page=content,
        figures=figures,
        sections=sections(content, figures),
        drawing=svg.on_screen,
        strip=lambda placed: svg.on_screen(strips.draw(placed)),
        marks=verdicts.on_screen(),
        alarms=verdicts.ALARMS,
    )


def sections(content: Page, figures: Sequence[Figure]) -> list[tuple[str, str]]:
    """List the sections that a page has, as (fragment, name)."""
    there = {
        "changes": content.changes,
        "attacks": content.attacks,
        "epsilon": content.comparisons,
        "figures": figures,
        "releases": content.details,
    }
    return [(key, name) for key, name in _SECTIONS.items() if there.get(key, True)]


def laid_out(template: str, **values: Any) -> bytes:
    """Fill a template of this folder, with the one style and the one script of all pages."""
    css, script = (
        (_TEMPLATES / name).read_text(encoding="utf-8").strip()
        for name in ("report.css", "attacks.js")
    )
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["soft"] = _soft
    environment.filters["digest"] = _digest
    text = environment.get_template(template).render(css=css, script=script, **values)
    return text.encode("utf-8")


def _soft(name: str) -> Markup:
    """Escape a name and mark where a narrow column may break it."""
    return Markup("<wbr>").join(_JOINTS.split(name))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
