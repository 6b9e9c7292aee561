"""report.pdf by qpdf and poppler: sound, tagged, titled, in a language, every drawing told."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.results.schema import Results
from reports import Report, pdf

pytestmark = pytest.mark.validators
NAMES = ("results", "four", "hostile", "hostile_four", "unfinished", "swept", "hostile_swept",
         "compared", "hostile_compared", "run", "sweep")  # fmt: skip


def told(*command: str) -> str:
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def qpdf(program: Callable[..., str]) -> str:
    return program("qpdf")


@pytest.fixture(scope="module")
def pdfinfo(program: Callable[..., str]) -> str:
    return program("pdfinfo")


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, reports: dict[str, Path]) -> Path:
    assert set(reports) == set(NAMES)
    return reports[request.param] / pdf.FILENAME


def test_qpdf_finds_no_error(qpdf: str, path: Path) -> None:
    assert "No syntax or stream encoding errors found" in told(qpdf, "--check", str(path))


def test_poppler_reads_tags_a_title_and_no_script(pdfinfo: str, path: Path) -> None:
    facts = dict(re.findall(r"^([\w ]+): +(.*)$", told(pdfinfo, str(path)), re.M))
    assert facts["Title"].startswith("Privacy ")
    assert facts["Tagged"] == "yes" and facts["Suspects"] == "no"
    assert facts["JavaScript"] == facts["Encrypted"] == "no"


def test_it_says_its_language_and_tells_every_drawing(qpdf: str, path: Path) -> None:
    document = json.loads(told(qpdf, "--json", str(path)))
    objects = [entry.get("value") for entry in document["qpdf"][1].values()]
    parts = [one for one in objects if isinstance(one, dict)]
    (catalog,) = (one for one in parts if one.get("/Type") == "/Catalog")
    assert catalog["/Lang"] == "u:en" and catalog["/MarkInfo"]["/Marked"] is True
    assert catalog["/ViewerPreferences"]["/DisplayDocTitle"] is True
    figures = [one for one in parts if one.get("/S") == "/Figure"]
    assert all(len(figure.get("/Alt", "")) > 40 for figure in figures)
    assert figures or path.parent.name.startswith("unfinished")


def test_typst_refuses_a_drawing_without_words(
    by_hand: dict[str, Results], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UA-1 is not only written on the file: the compiler holds the report to it."""
    import typst

    templates, words = tmp_path / "templates", ", alt: figure.alternative"
    shutil.copytree(pdf._TEMPLATES, templates)
    report = templates / "report.typ"
    source = report.read_text(encoding="utf-8")
    assert words in source
    report.write_text(source.replace(words, ""), encoding="utf-8")
    monkeypatch.setattr(pdf, "_TEMPLATES", templates)
    with pytest.raises(typst.TypstError, match="alt"):
        pdf.Pdf().files(Report(by_hand["results"]))
