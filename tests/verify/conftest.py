"""A run folder made once, and copies of it to edit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit.results import sums
from tests.verify import made


@dataclass(frozen=True)
class Folder:
    """A copy of a run folder whose files can be edited."""

    path: Path

    def edit(self, name: str, change: Callable[[Any], None]) -> None:
        """Changes a JSON file in place."""
        path = self.path / name
        document = json.loads(path.read_text(encoding="utf-8"))
        change(document)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")

    def rows(self, name: str, change: Callable[[list[Any]], None]) -> None:
        """Changes the rows of a JSONL file."""
        path = self.path / name
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        change(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def seal(self) -> None:
        """Writes the digests of what now stands there."""
        sums.write(self.path)


@pytest.fixture(scope="session")
def by_hand(shared: Callable[..., Path]) -> Path:
    """The untouched folder."""
    return shared("verify", made.write)


@pytest.fixture
def folder(by_hand: Path, tmp_path: Path) -> Folder:
    """A copy of its own for one test."""
    copy = tmp_path / "run"
    shutil.copytree(by_hand, copy)
    return Folder(copy)


@pytest.fixture
def sweep(shared: Callable[..., Path], tmp_path: Path) -> Folder:
    """A copy of a sweep's folder for one test."""
    copy = tmp_path / "sweep"
    shutil.copytree(shared("verify-sweep", made.write_sweep), copy)
    return Folder(copy)
