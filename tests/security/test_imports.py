"""Nothing of a stranger's working directory is imported, by whatever door one enters."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from audit.core.safe_path import SAFE, children_leave_it_out

# what the interpreter, this package and their workers import early, and late
NAMES = (
    *("__future__", "typing", "contextlib", "signal", "collections", "multiprocessing", "pickle"),
    *("subprocess", "click", "numpy", "torch", "transformers", "rich", "megatron_core", "ray"),
    *("matplotlib", "typst", "usercustomize", "attacks", "defenses", "reports"),
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A working directory whose every module leaves a file behind when it is imported."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in NAMES:
        code = f"open({str(tmp_path / 'RAN')!r}, 'a').write('{name}\\n')\nraise SystemExit(7)\n"
        (folder / f"{name}.py").write_text(code)
    return folder


def ran(checkout: Path) -> str:
    said = checkout.parent / "RAN"
    return said.read_text("utf-8") if said.exists() else ""


def start(checkout: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in (SAFE, "PYTHONPATH")}
    return subprocess.run(
        words, cwd=checkout, env={**clean, **environment}, capture_output=True, encoding="utf-8"
    )


SCRIPT = str(Path(sys.executable).with_name("audit"))


@pytest.mark.parametrize("door", [(SCRIPT,), (sys.executable, "-m", "audit")])
def test_no_door_imports_from_the_working_directory(checkout: Path, door: tuple[str, ...]) -> None:
    if "-m" in door:  # Python's own `-m` imports these before any of this package is there
        for name in ("contextlib", "collections"):
            (checkout / f"{name}.py").unlink()
    done = start(checkout, *door, "list", "defenses")
    assert ran(checkout) == "" and done.returncode == 0, done.stderr
    assert "submix" in done.stdout


@pytest.mark.full
def test_pool_and_its_resource_tracker_import_nothing_of_it(checkout: Path) -> None:
    code = (
        "from audit.train.workers.pool import pool\n"
        "def largest(item, report):\n"
        "    return max(item)\n"
        "if __name__ == '__main__':\n"
        "    with pool(2) as workers:\n"
        "        print(workers.each(largest, [[1, 2]], print))\n"
    )
    script = checkout.parent / "script.py"  # of another folder than the working directory
    script.write_text(code)
    done = start(checkout, sys.executable, str(script))
    assert ran(checkout) == "" and done.stdout == "[2]\n", done.stderr


def test_process_with_limits_imports_nothing_of_it(checkout: Path) -> None:
    script = checkout.parent / "script.py"
    script.write_text(
        "from audit.models.template_process import TemplateProcess\n"
        "print(TemplateProcess('{{ messages[0].content }}', {}).written([{'content': 'ok'}]))\n"
    )
    done = start(checkout, sys.executable, str(script))
    assert ran(checkout) == "" and done.stdout == "ok\n", done.stderr


def test_drawings_read_no_settings_of_it(checkout: Path) -> None:
    (checkout / "matplotlibrc").write_text("font.size: 33\n\x1b[31mRED: 1\n")
    (checkout / "matplotlib.py").unlink()
    code = "import reports._figures.canvas, matplotlib; print(matplotlib.rcParams['font.size'])"
    done = start(checkout, sys.executable, "-P", "-c", code)
    assert (done.stdout, done.stderr) == ("10.0\n", "")


def test_variable_is_as_before_once_processes_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "1", ""):
        monkeypatch.setenv(SAFE, before) if before is not None else monkeypatch.delenv(
            SAFE, raising=False
        )
        with children_leave_it_out():
            assert os.environ[SAFE] == "1"
        assert os.environ.get(SAFE) == before


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra ray")
@pytest.mark.parametrize("workers", ["2", pytest.param("ray", marks=pytest.mark.full)])
def test_whole_run_in_a_strangers_checkout(checkout: Path, workers: str) -> None:
    (checkout / "plan.toml").write_text(
        'defense = ["submix:k=2"]\nattack = ["extraction:generations=5"]\n'
        'format = ["json", "html"]\n'
        f'workers = "{workers}"\n[planting]\nusers = 12\n[training]\nepochs = 1\n'
    )
    door = (SCRIPT, "run", "--plan", "plan.toml", "--output", "out")
    done = start(checkout, *door)
    assert ran(checkout) == "" and done.returncode == 0, done.stderr
