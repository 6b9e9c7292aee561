"""The examples of the docs, installed as a stranger's package, run from the command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def stranger(tmp_path: Path) -> dict[str, str]:
    """An environment in which both examples are installed through entry points."""
    site = tmp_path / "site"
    package = site / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    groups = []
    for page in ("adding-a-defense.md", "adding-an-attack.md"):
        text = (DOCS / page).read_text()
        code = re.search(r"```python\n(.*?)```", text, re.S)
        entry = re.search(r'\[project\.entry-points\."(.+)"\]\n(\w+) = "my_package\.(\w+)"', text)
        assert code and entry
        (package / f"{entry[3]}.py").write_text(code[1])
        groups.append(f"[{entry[1]}]\n{entry[2]} = my_package.{entry[3]}\n")
    info = site / "my_package-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    (info / "entry_points.txt").write_text("\n".join(groups))
    return {**os.environ, "PYTHONPATH": str(site)}


def audit(stranger: dict[str, str], cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "audit", *words]
    return subprocess.run(line, cwd=cwd, env=stranger, capture_output=True, text=True)


def test_both_examples_are_listed(stranger: dict[str, str], tmp_path: Path) -> None:
    listed = audit(stranger, tmp_path, "list").stdout
    assert "halved" in listed and "likelihood" in listed


def test_both_examples_run(stranger: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        "utility_tokens = 64\n[planting]\nusers = 8\n[training]\nepochs = 1\n"
    )
    ran = audit(
        stranger, tmp_path, "run", "--plan", "plan.toml", "--defense", "halved:share=0.3",
        "--attack", "likelihood", "--no-references", "--format", "json", "--output", "out",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "halved: likelihood" in ran.stdout


def test_a_bad_parameter_of_a_strangers_plugin_is_one_line(
    stranger: dict[str, str], tmp_path: Path
) -> None:
    ran = audit(stranger, tmp_path, "run", "--defense", "halved:share=2", "--attack", "likelihood")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
