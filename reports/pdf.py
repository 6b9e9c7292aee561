"""report.pdf: a tagged PDF (PDF/UA-1) by typst, with only the fonts of its wheel."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typst

from audit.core.visible import code_point, each_text
from reports import Format, Report
from reports._content import verdicts
from reports._content.comparison import TwoRuns
from reports._content.figure import Figure
from reports._content.page import Page
from reports._figures import strips

FILENAME = "report.pdf"
COMPARISON = "comparison.pdf"
_TEMPLATES = Path(__file__).parent / "_templates"
# What the wheel's fonts can show; other characters are written as ‹U+4E2D›.
_COVERED = ((0x20, 0x2FF), (0x370, 0x4FF), (0x1E00, 0x1FFF), (0x2010, 0x2040), (0x2070, 0x211E),
            (0x2126, 0x2151), (0x2153, 0x2184), (0x2190, 0x23FF), (0x2500, 0x25FF))  # fmt: skip
_UNCOVERED = re.compile(f"[^{''.join(f'{chr(low)}-{chr(high)}' for low, high in _COVERED)}]")


@dataclass(frozen=True)
class Pdf(Format):
    """The printed report: the content of html but for the findings in full."""

    def files(self, report: Report) -> dict[str, bytes]:
        return {FILENAME: _laid_out(report.page, report.figures)}

    def compared(self, runs: TwoRuns) -> dict[str, bytes]:
        return {COMPARISON: _laid_out(runs.page, runs.figures)}


def _laid_out(content: Page, figures: Sequence[Figure]) -> bytes:
    page = asdict(content)
    for block, of in zip(page["summary"]["blocks"], content.summary.blocks, strict=True):
        for row, shown in zip(block["rows"], of.rows, strict=True):
            row["drawn"] = None if shown.strip is None else strips.draw(shown.strip)
    data = {
        "page": page,
        "figures": [{**asdict(figure), "svg": figure.picture} for figure in figures],
        "marks": verdicts.on_paper(),
        "badges": verdicts.badges_on_paper(),
        "alarms": verdicts.ALARMS,
    }
    return laid_out("report.typ", data)


def laid_out(template: str, data: dict[str, Any]) -> bytes:
    """Compile a template of this folder, after the one style of all pages."""
    compiler = typst.Compiler(
        font_paths=typst.Fonts(include_system_fonts=False), ignore_system_fonts=True
    )
    document = compiler.compile(
        b"".join((_TEMPLATES / name).read_bytes() for name in ("style.typ", template)),
        format="pdf",
        sys_inputs={"data": json.dumps(each_text(data, covered, keys=False), ensure_ascii=False)},
        pdf_standards="ua-1",
    )
    if not isinstance(document, bytes):
        raise TypeError("typst returned no single document")
    return document


def covered(text: str) -> str:
    """Name every character that the embedded fonts lack by its code point."""
    if text.isascii():
        return text
    return _UNCOVERED.sub(lambda match: code_point(match[0]), text)
