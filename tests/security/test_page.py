"""Each test that docs/security.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_every_named_test_is_there() -> None:
    page = (PROJECT / "docs" / "security.md").read_text(encoding="utf-8")
    files: dict[str, set[str]] = {}
    for path in (PROJECT / "tests").rglob("test_*.py"):
        files.setdefault(path.name, set()).update(defined(path))
    known = set().union(*files.values())
    names = set(re.findall(r"\b(test_\w+)\b(?!\.py)", page))
    assert names and names <= known, names - known
    assert set(re.findall(r"\b(test_\w+\.py)\b", page)) <= set(files)
    for file, name in re.findall(r"\b(test_\w+\.py)::(test_\w+)", page):
        assert name in files[file], (file, name)


def defined(path: Path) -> list[str]:
    return re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M)
