"""The docs and the README: their links, commands, paths and first output are true of the code."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from audit import api
from audit.cli.app import cli
from audit.plan.settings import gather
from audit.results.schema import schema

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
PAGES = {
    str(path.relative_to(PROJECT)): path.read_text(encoding="utf-8")
    for path in (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
}
FENCED = re.compile(r"^```.*?^```$", re.S | re.M)
TOPS = ("audit", "attacks", "defenses", "reports", "tests", "benchmarks", "fixtures", "docs", "ci")


def test_readme_is_short_with_its_test_command() -> None:
    text = PAGES["README.md"]
    assert len(text.splitlines()) < 100
    assert text.count("<!-- test-command -->\n```sh\n") == 1


def test_links_files_and_lists_of_pages_are_sound() -> None:
    """Links lead somewhere, files named exist, and a list begins after an empty line."""
    wrong: list[tuple[str, str]] = []
    for page, text in PAGES.items():
        prose = FENCED.sub("", text)
        links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", prose)
        wrong += [(page, link) for link in links if not ((PROJECT / page).parent / link).exists()]
        named = re.findall(rf"`((?:{'|'.join(TOPS)})/[\w./-]*)`", text)
        wrong += [(page, n) for n in named if "NAME" not in n and not (PROJECT / n).exists()]
        begun = re.findall(r"^(?![-#|>]|\d+\.| ).+\n- .*", prose, re.M)
        wrong += [(page, line) for line in begun if page not in ("README.md", "CONTRIBUTING.md")]
    assert wrong == []


def test_every_page_is_in_navigation_once() -> None:
    class Loader(yaml.SafeLoader):
        """mkdocs.yml without its Python tags."""

    listed: list[str] = []

    def walk(entry: Any) -> None:
        if isinstance(entry, str):
            listed.append(entry)
        for inner in entry.values() if isinstance(entry, dict) else entry:
            if not isinstance(entry, str):
                walk(inner)

    walk(yaml.load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"])
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_command_lines_of_pages_are_understood() -> None:
    lines = {
        line.split("  #")[0].rpartition("&& ")[2].removeprefix(".venv/bin/")
        for text in PAGES.values()
        for block in re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M)
        for line in block.splitlines()
        if re.search(r"(^|&& )(\.venv/bin/)?audit \w", line)
    }
    assert len(lines) > 20
    for line in sorted(lines):
        words = shlex.split(line)[1:]
        command: Any = cli
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None, line
        command.make_context(line, words)  # its error names the line


def test_plans_of_pages_hold_known_settings(tmp_path: Path) -> None:
    for page, users in {"docs/your-own-data.md": 100, "docs/chat.md": 60}.items():
        (block,) = re.findall(r"<!-- plan -->\n```toml\n(.*?)```", PAGES[page], re.S)
        (tmp_path / "plan.toml").write_text(block, encoding="utf-8")
        assert gather({}, tmp_path / "plan.toml")["planting"]["users"] == users


OF_THE_MACHINE = r"\b[0-9a-f]{8,12}\b|\d{4}-\d\d-\d\d-|on \w+$|(?<=^expected: ).*"


@pytest.mark.slow
def test_the_tutorial_shows_what_a_dry_run_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the plan's hash, the day, and what it takes, which depend on the machine."""
    monkeypatch.chdir(tmp_path)
    found = re.search(
        r"<!-- dry run output -->\n```text\n(.*?)```", PAGES["docs/tutorial.md"], re.S
    )
    assert found
    printed = api.dry_run(defense="submix", attack="extraction")
    shown, printed = (
        re.sub(OF_THE_MACHINE, "…", text, flags=re.M).strip() for text in (found[1], printed)
    )
    assert shown == printed


def test_every_key_of_results_json_has_a_meaning() -> None:
    document = schema()
    meanings = tomllib.loads((DOCS / "_build" / "meanings.toml").read_text(encoding="utf-8"))
    tables = {"Results": document, **document["$defs"]}
    for name, keys in meanings.items():
        assert set(keys) <= set(tables[name]["properties"]), name
    for name, table in tables.items():
        for key, value in table.get("properties", {}).items():
            known = "description" in value or key in meanings.get(name, {})
            described = re.search(rf"\b{key}\b[\w, ]*: ", table.get("description", ""))
            assert known or described, (name, key)


@pytest.mark.parametrize("name", ["page-one", "claims", "attacks"])
def test_pictures_keep_their_red(name: str) -> None:
    """A leak that is drawn in grey is no warning."""
    from PIL import Image

    with Image.open(DOCS / "pictures" / f"{name}.png") as picture:
        small = picture.convert("RGB")
    pixels = small.get_flattened_data() if hasattr(small, "get_flattened_data") else small.getdata()
    red = sum(r > 140 and g < 70 and b < 70 for r, g, b in pixels)
    assert red > 100
