"""The docs as their readers use them: their code blocks, and their examples as modules."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def blocks() -> Callable[[str, str], list[str]]:
    """blocks("python", "toml"): the code blocks of docs/python.md in that language, in order."""

    def found(page: str, language: str) -> list[str]:
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)

    return found


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """module(source): imported from a file of its own, as long as the test runs."""
    names: list[str] = []

    def imported(source: str) -> ModuleType:
        path = tmp_path / f"stranger_{len(names)}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        names.append(path.stem)
        made = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    yield imported
    for name in names:
        del sys.modules[name]
