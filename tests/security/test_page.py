"""Each test that docs/security.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def test_every_named_test_is_there() -> None:
    page = (PROJECT / "docs" / "security.md").read_text(encoding="utf-8")
    names = set(re.findall(r"\b(test_\w+)\b(?!\.py)", page))
    files = set(re.findall(r"\b(test_\w+\.py)\b", page))
    tests = list((PROJECT / "tests").rglob("test_*.py"))
    defined = {
        name
        for path in tests
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M)
    }
    assert names and names <= defined, names - defined
    assert files and files <= {path.name for path in tests}
