"""report.html by the Nu checker, and by axe-core in Chromium: light, dark and on a telephone."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.results.schema import Results
from audit.run import reports as writing
from reports import Report, html

pytestmark = pytest.mark.validators
HERE = Path(__file__).parent
STOPPED = {
    "connect-src", "frame-src", "img-src", "script-src-elem", "style-src-attr", "style-src-elem",
}  # fmt: skip
Judge = Callable[[list[Path]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def pages(reports: dict[str, Path]) -> list[Path]:
    return [folder / html.FILENAME for folder in reports.values()]


@pytest.fixture(scope="module")
def nu(installed: Callable[[str], Path], program: Callable[..., str]) -> Judge:
    """Pages -> the Nu checker's messages, warnings included."""
    jar, java = installed("node_modules/vnu-jar/build/dist/vnu.jar"), program("java")

    def judge(pages: list[Path]) -> list[dict[str, Any]]:
        command = [java, "-Xss1m", "-jar", str(jar), "--format", "json", *map(str, pages)]
        ran = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
        found: list[dict[str, Any]] = json.loads(ran.stderr)["messages"]
        assert bool(found) == bool(ran.returncode) or all(m["type"] == "info" for m in found)
        return found

    return judge


@pytest.fixture(scope="module")
def browser(installed: Callable[[str], Path], program: Callable[..., str]) -> Judge:
    """Pages -> what Chromium and axe-core found in each look of each (browser.mjs)."""
    axe = installed("node_modules/axe-core/axe.min.js")
    chromium = program("chromium", "chromium-browser", "google-chrome")
    start = [program("node"), str(HERE / "browser.mjs"), chromium, str(axe)]

    def judge(pages: list[Path]) -> list[dict[str, Any]]:
        ran = subprocess.run(
            [*start, *map(str, pages)], capture_output=True, encoding="utf-8", timeout=900
        )
        assert ran.returncode == 0, ran.stderr
        looks: list[dict[str, Any]] = json.loads(ran.stdout)
        return looks

    return judge


@pytest.fixture(scope="module")
def looks(browser: Judge, pages: list[Path]) -> list[dict[str, Any]]:
    return browser(pages)


def of(looks: list[dict[str, Any]], what: str) -> dict[str, Any]:
    """What was found of one thing, where anything was."""
    return {f"{look['page']} {look['scheme']} {look['width']}": look[what]
            for look in looks if look[what]}  # fmt: skip


def test_the_nu_checker_has_nothing_to_say(nu: Judge, pages: list[Path]) -> None:
    assert nu(pages) == []


def test_axe_finds_nothing_in_light_dark_and_on_a_telephone(looks: list[dict[str, Any]]) -> None:
    assert {(look["scheme"], look["width"]) for look in looks} == {
        ("light", 1280), ("dark", 1280), ("light", 360),
    }  # fmt: skip
    assert len({look["background"] for look in looks}) == 2  # dark is dark
    assert of(looks, "violations") == {}


def test_nothing_is_requested_and_the_console_is_silent(looks: list[dict[str, Any]]) -> None:
    assert of(looks, "requests") == {} and of(looks, "console") == {}


def test_nothing_is_wider_than_the_screen(looks: list[dict[str, Any]]) -> None:
    """From 360 px up, folded parts open or not."""
    assert of(looks, "wide") == {}


def test_whatever_got_into_the_page_could_not_act(looks: list[dict[str, Any]]) -> None:
    for look in looks:
        assert look["escape"] == {"escaped": False, "stopped": sorted(STOPPED)}, look["page"]


def test_attacks_are_sorted_and_filtered_by_the_one_script(looks: list[dict[str, Any]]) -> None:
    tables = of(looks, "sorted")
    assert len(tables) > 3 and any(len({*one["values"]}) > 1 for one in tables.values())
    for page, one in tables.items():
        assert one["values"] == sorted(one["values"], reverse=True), page
        assert one["again"] == one["all"] >= one["word"] >= 1 and one["none"] == 0, page


def test_a_table_laid_out_as_a_list_is_still_read_as_a_table(looks: list[dict[str, Any]]) -> None:
    """Chromium's accessibility tree is the same on a telephone."""
    parts = ("table", "row", "rowheader", "columnheader", "cell")
    read: dict[str, list[list[int]]] = {}
    for look in looks:
        if look["scheme"] == "light":
            read.setdefault(look["page"], []).append([look["roles"].get(p, 0) for p in parts])
    for page, (on_a_desk, on_a_telephone) in read.items():
        assert on_a_desk == on_a_telephone, page
    assert all(sum(counts[i] for both in read.values() for counts in both) for i in range(5))


# One fault a page: these judges do find what they are there to find.
BAD_MARKUP = [
    ("<main ", '<main colour="red" '),
    ("</header>", ""),
    ('<dl class="facts">', '<dl class="facts"><p>stray</p>'),
    (' scope="row"', ' scope="sideways"'),
]
BAD_LOOKS = [
    ("violations", 'role="img" aria-label="', 'role="img" data-gone="'),
    ("violations", 'lang="en"', ""),
    ("violations", "<main ", "<div "),
    ("requests", "<meta http", '<link rel="stylesheet" href="http://[::1]:9/"><meta http'),
    ("console", "<header>", '<header><img alt="" src="https://elsewhere.invalid/x.png">'),
    ("console", "<header>", "<header><script>1</script>"),
    ("wide", "</header>", f'<p class="verdict">{"a" * 300}</p></header>'),
]


@pytest.mark.parametrize(("good", "bad"), BAD_MARKUP)
def test_the_nu_checker_sees_a_fault(
    nu: Judge, reports: dict[str, Path], tmp_path: Path, good: str, bad: str
) -> None:
    assert nu([spoilt(reports["results"], tmp_path / html.FILENAME, good, bad)])


def test_the_browser_sees_each_fault(
    browser: Judge, reports: dict[str, Path], tmp_path: Path
) -> None:
    pages = [
        spoilt(reports["results"], tmp_path / f"{i}.html", good, bad)
        for i, (_, good, bad) in enumerate(BAD_LOOKS)
    ]
    looks = browser(pages)
    for page, (what, _, bad) in zip(pages, BAD_LOOKS, strict=True):
        assert of([look for look in looks if look["page"] == str(page)], what), bad


def test_the_browser_sees_faint_text_in_the_dark(
    browser: Judge, by_hand: dict[str, Results], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(html._TEMPLATES, tmp_path / "templates")
    style = tmp_path / "templates" / "report.css"
    plain, dark = "--muted: #a6acb5", "--muted: #5b6068"
    assert plain in style.read_text(encoding="utf-8")
    style.write_text(style.read_text(encoding="utf-8").replace(plain, dark), encoding="utf-8")
    monkeypatch.setattr(html, "_TEMPLATES", tmp_path / "templates")
    writing.write(Report(by_hand["results"], tmp_path), ["html"])
    faint = [look for look in browser([tmp_path / html.FILENAME]) if look["violations"]]
    assert [look["scheme"] for look in faint] == ["dark"]
    assert all(told.startswith("color-contrast") for told in faint[0]["violations"])


def spoilt(folder: Path, path: Path, good: str, bad: str) -> Path:
    source = (folder / html.FILENAME).read_text(encoding="utf-8")
    assert good in source
    path.write_text(source.replace(good, bad), encoding="utf-8")
    return path
