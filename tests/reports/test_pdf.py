"""The PDF report is tagged, inert, embeds its fonts and is the same each time."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from audit.results.schema import Results
from reports import pdf
from reports._content.verdicts import MEANINGS
from reports._content.wording import visible

needs_poppler = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext")


def told(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, check=True, timeout=20)
    text = done.stdout.decode("utf-8").replace("\u200b", "")
    return re.sub(r"\s+", " ", text.replace("\u00a0", " "))


@pytest.fixture(scope="module")
def path(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pdf.write(results, tmp_path_factory.mktemp("pdf"))


def test_it_is_tagged_titled_and_in_a_language(path: Path) -> None:
    content = path.read_bytes()
    assert path.name == pdf.FILENAME and content.startswith(b"%PDF-")
    assert b"/StructTreeRoot" in content and b"/Marked true" in content
    assert b"/Lang" in content and b"/Title" in content
    assert b"<pdfuaid:part>1</pdfuaid:part>" in content and b"CreationDate" not in content
    assert b"/JavaScript" not in content and b"/URI" not in content


def test_two_runs_give_the_same_bytes(results: Results, path: Path) -> None:
    assert pdf.render(results) == path.read_bytes()


@needs_poppler
def test_page_one_is_one_page_and_complete(path: Path) -> None:
    text = told("pdftotext", "-layout", "-l", "1", str(path), "-")
    for part in (
        "submix: no leak found by extraction.",
        "ε = 2 nats per part (part removed)",
        "ε unknown",
        "[91 %, 99.62 %]",
        "[0 %, 3.6 %], n = 100",
        "0.613",
        "[0.55, 0.68]",
        "1,540 records",
        "STOP timing was not attacked",
        "audit run --defense submix --attack extraction",
        "Plan hash 1f3a9c2e",
    ):
        assert part in text, part


@needs_poppler
def test_page_one_of_four_attacks_is_one_page(four: Results, tmp_path: Path) -> None:
    path = str(pdf.write(four, tmp_path))
    text = told("pdftotext", "-layout", "-l", "1", path, "-")
    for part in ("extraction, hit rate", "exposure, 1 copy", "membership, record", "other names",
                 "would have been called a leak", "Unprotected", "Undefended", "Public",
                 "What was promised", "one seed: nothing is ranked", "Plan hash"):  # fmt: skip
        assert part in text, part
    assert told("pdftotext", "-f", "2", "-l", "2", path, "-").startswith("How to read it")


@needs_poppler
def test_a_long_page_one_is_made_smaller(make: SimpleNamespace, tmp_path: Path) -> None:
    many = [
        make.release(
            "dp_sgd", make.guarantee(float(e)), make.finding(0.9, leaked="leak", claim="refuted")
        )
        for e in range(1, 6)
    ]
    run = make.run(*many, not_tested=[f"the {i}. of many things" for i in range(8)])
    path = str(pdf.write(run, tmp_path))
    assert "Plan hash" in told("pdftotext", "-l", "1", path, "-")


@needs_poppler
def test_what_cannot_fit_page_one_goes_on_overleaf(make: SimpleNamespace, tmp_path: Path) -> None:
    long = [f"the {i}. of far too many things, told at length" for i in range(120)]
    path = str(pdf.write(make.run(not_tested=long), tmp_path))
    pages = told("pdftotext", path, "-")
    assert all(thing in pages for thing in long)


@needs_poppler
def test_every_verdict_word_appears(path: Path) -> None:
    text = told("pdftotext", str(path), "-")
    assert [label for label in MEANINGS if label not in text] == []


@needs_poppler
def test_hostile_text_is_shown_and_never_run(hostile: Results, tmp_path: Path) -> None:
    text = told("pdftotext", str(pdf.write(hostile, tmp_path)), "-")
    for part in ('#eval("1+1")', "$x^2$", "<script>alert(1)</script>", "‹U+202E›", "‹U+001B›",
                 "‹U+4E2D›‹U+6587›", "{{7*7}}"):  # fmt: skip
        assert part in text, part
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", text)


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="needs pdffonts")
def test_all_fonts_are_the_wheels_and_embedded(path: Path) -> None:
    done = subprocess.run(["pdffonts", str(path)], capture_output=True, check=True, timeout=20)
    rows = done.stdout.decode().splitlines()[2:]
    assert rows
    for row in rows:
        assert re.search(r"Libertinus|DejaVuSansMono|NewCM", row), row
        assert re.search(r" yes +yes +yes +\d+ +\d+$", row), row


def test_the_fonts_have_every_character_that_is_let_through() -> None:
    import typst

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


def test_an_unfinished_run_has_a_report(unfinished: Results) -> None:
    assert pdf.render(unfinished).startswith(b"%PDF-")
