"""The PDF report is tagged, inert, embeds its fonts and is the same each time."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typst

from audit.core.visible import visible
from audit.results.badge import of_results
from audit.results.schema import Results, to_json
from reports import pdf
from reports._content.verdicts import MEANINGS
from tests import by_hand as make
from tests.reports.pages import plain

needs_poppler = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext")


def printed(results: Results, folder: Path) -> Path:
    path = folder / pdf.FILENAME
    path.write_bytes(make.files("pdf", results)[pdf.FILENAME])
    return path


def told(path: Path, *pages: str) -> str:
    command = ("pdftotext", *pages, str(path), "-")
    done = subprocess.run(command, capture_output=True, check=True, timeout=20)
    return plain(done.stdout.decode("utf-8").replace("\u200b", ""))


@pytest.fixture(scope="module")
def path(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return printed(results, tmp_path_factory.mktemp("pdf"))


def test_it_is_tagged_titled_and_in_a_language(path: Path) -> None:
    content = path.read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"/StructTreeRoot" in content and b"/Marked true" in content
    assert b"/Lang" in content and b"/Title" in content
    assert b"<pdfuaid:part>1</pdfuaid:part>" in content and b"CreationDate" not in content
    assert b"/JavaScript" not in content and b"/URI" not in content


def test_the_same_results_give_the_same_bytes(results: Results, path: Path) -> None:
    again = Results.model_validate_json(to_json(results))
    assert make.files("pdf", again)[pdf.FILENAME] == path.read_bytes()


@needs_poppler
def test_page_one_has_the_verdict_boxes_and_contents(four: Results, tmp_path: Path) -> None:
    path = printed(four, tmp_path)
    first = told(path, "-l", "1")
    assert str(of_results(four)) in first and "before you" in first
    for box in make.report(four).page.boxes:
        assert box.name in first and plain(box.figure) in first
    assert re.search(r"Attacks .*? \d", first) and re.search(r"Cost and environment .*? \d", first)
    pages = re.findall(r"\bp\. ?(\d+)\b", first)  # of the attacks, behind their measures
    assert len(pages) == 4
    for page, measure in zip(pages, ("record loss", "other names", "hit rate"), strict=False):
        there = told(path, "-f", page, "-l", str(int(page) + 1))
        assert measure in there and "Attacks" in told(path, "-f", min(pages), "-l", min(pages))


@needs_poppler
def test_what_cannot_fit_page_one_continues_overleaf(tmp_path: Path) -> None:
    long = [f"the {i}. of far too many things, told at length" for i in range(120)]
    pages = told(printed(make.run(not_tested=long), tmp_path))
    assert all(thing in pages for thing in long)


@needs_poppler
def test_every_verdict_word_appears(path: Path) -> None:
    assert [label for label in MEANINGS if label not in told(path)] == []


@needs_poppler
def test_hostile_text_is_shown_and_never_run(hostile: Results, tmp_path: Path) -> None:
    text = told(printed(hostile, tmp_path))
    for part in ('#eval("1+1")', "$x^2$", "<script>alert(1)</script>", "‹U+202E›", "‹U+001B›",
                 "‹U+4E2D›‹U+6587›", "{{7*7}}"):  # fmt: skip
        assert part in text, part
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", text)


@pytest.mark.parametrize("which", ["hostile_four", "unfinished"])
def test_any_results_can_be_printed(which: str) -> None:
    assert make.files("pdf", make.EVERY[which]())[pdf.FILENAME].startswith(b"%PDF-")


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="needs pdffonts")
def test_all_fonts_are_the_wheels_and_embedded(path: Path) -> None:
    done = subprocess.run(["pdffonts", str(path)], capture_output=True, check=True, timeout=20)
    rows = done.stdout.decode().splitlines()[2:]
    assert rows
    for row in rows:
        assert re.search(r"Libertinus|DejaVuSansMono|NewCM", row), row
        assert re.search(r" yes +yes +yes +\d+ +\d+$", row), row


def test_the_fonts_have_every_character_that_is_let_through() -> None:
    text = "".join(chr(c) for low, high in pdf._COVERED for c in range(low, high + 1))
    source = (
        '#set document(title: "x")\n#set text(lang: "en", font: ("Libertinus Serif", '
        '"DejaVu Sans Mono"))\n#sys.inputs.text'
    )
    compiler = typst.Compiler(
        font_paths=typst.Fonts(include_system_fonts=False), ignore_system_fonts=True
    )
    shown = " ".join(pdf.covered(visible(text)))
    assert compiler.compile(
        source.encode(), format="pdf", sys_inputs={"text": shown}, pdf_standards="ua-1"
    )
