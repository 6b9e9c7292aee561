"""A run folder as a run leaves it, and a home whose files a stranger is after."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.results.folder import RunFolder
from tests.security.homes import Home, seen
from tests.verify import made


@pytest.fixture
def home(tmp_path: Path) -> Home:
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True, mode=0o755)
    for name in (".bashrc", ".ssh/authorized_keys"):
        (folder / name).write_text("mine\n")
        (folder / name).chmod(0o644)
    return Home(folder, seen(folder))


@pytest.fixture
def run(shared: Callable[..., Path], tmp_path: Path) -> Path:
    """A copy of a finished run, with stages that its user signed."""
    copy = tmp_path / "run"
    shutil.copytree(shared("verify", made.write), copy)
    results = json.loads((copy / "results.json").read_text("utf-8"))
    folder = RunFolder(copy, results["plan"]["hash"])
    with folder.held(results["plan"]):
        assert len(folder.key) == 64
    folder.mark("complete", results["plan"])
    return copy
