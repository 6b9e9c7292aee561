"""report.pdf: a tagged PDF (PDF/UA-1) by typst, with only the fonts of its wheel."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typst

from audit.results.schema import Results
from reports._content import comparison, page, sweep, verdicts
from reports._content.page import Page
from reports._content.wording import code_point
from reports._figures import svg
from reports._figures.figure import Figure

FILENAME = "report.pdf"
COMPARISON = "comparison.pdf"
_TEMPLATES = Path(__file__).parent / "_templates"
# What the wheel's fonts can show; other characters are written as ‹U+4E2D›.
_COVERED = ((0x20, 0x2FF), (0x370, 0x4FF), (0x1E00, 0x1FFF), (0x2010, 0x2040), (0x2070, 0x211E),
            (0x2126, 0x2151), (0x2153, 0x2184), (0x2190, 0x23FF), (0x2500, 0x25FF))  # fmt: skip
_UNCOVERED = re.compile(f"[^{''.join(f'{chr(low)}-{chr(high)}' for low, high in _COVERED)}]")


def write(results: Results, folder: Path) -> Path:
    """Writes report.pdf into `folder`."""
    path = folder / FILENAME
    path.write_bytes(render(results))
    return path


def write_comparison(one: Results, other: Results, folder: Path) -> Path:
    """Writes comparison.pdf of two runs into `folder`."""
    path = folder / COMPARISON
    path.write_bytes(_laid_out(*comparison.content(one, other)))
    return path


def render(results: Results) -> bytes:
    """Returns the file; the same results give the same bytes."""
    return _laid_out(*(page if results.sweep is None else sweep).content(results))


def _laid_out(content: Page, figures: list[Figure]) -> bytes:
    data = {
        "page": asdict(content),
        "figures": [{**asdict(figure), "svg": svg.on_paper(figure.svg)} for figure in figures],
        "marks": verdicts.on_paper(),
        "alarms": verdicts.ALARMS,
        "refuted": verdicts.REFUTED,
    }
    return laid_out("report.typ", data)


def laid_out(template: str, data: dict[str, Any]) -> bytes:
    """Compiles a template of this folder, after the one style of all pages."""
    compiler = typst.Compiler(
        font_paths=typst.Fonts(include_system_fonts=False), ignore_system_fonts=True
    )
    document = compiler.compile(
        b"".join((_TEMPLATES / name).read_bytes() for name in ("style.typ", template)),
        format="pdf",
        sys_inputs={"data": json.dumps(_covered_tree(data), ensure_ascii=False)},
        pdf_standards="ua-1",
    )
    if not isinstance(document, bytes):
        raise TypeError("typst returned no single document")
    return document


def _covered_tree(tree: Any) -> Any:
    if isinstance(tree, str):
        return covered(tree)
    if isinstance(tree, dict):
        return {key: _covered_tree(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_covered_tree(value) for value in tree]
    return tree


def covered(text: str) -> str:
    """Names every character that the embedded fonts lack by its code point."""
    if text.isascii():
        return text
    return _UNCOVERED.sub(lambda match: code_point(match[0]), text)
