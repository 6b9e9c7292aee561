"""Nothing is written through a run folder that a stranger made, and no command hangs on it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit.core import files
from audit.core.errors import UsageError
from audit.results import foreign
from audit.results.find import find
from audit.results.folder import RunFolder, clean
from reports.html import Html
from tests.command_line import audit
from tests.security.homes import Home

NAMES = {  # files of a run folder, and a command that would write or read each
    "report.html": "report run --format html",
    "findings.csv": "report run --format csv",
    "junit.xml": "gate run",
    "report.sarif": "gate run --format sarif",
    "gate.json": "gate run",
    "perplexity-over-epsilon.svg": "figure run",
    "stages/lock": "clean run",
    "stages/sweep.lock": "clean run",
    "ledger.jsonl": "verify run",
    "evidence.json": "verify run",
    "SHA256SUMS": "verify run",
    "results.json": "export run none out",
}


def link(path: Path, home: Path) -> None:
    path.symlink_to(home / ".bashrc")


def hard_link(path: Path, home: Path) -> None:
    path.hardlink_to(home / ".bashrc")


def pipe(path: Path, home: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, home: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("put", [link, hard_link, pipe], ids=lambda put: put.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_what_no_run_makes_is_refused_by_name(
    run: Path, home: Home, name: str, put: Callable[[Path, Path], None]
) -> None:
    (run / name).unlink(missing_ok=True)
    put(run / name, home.path)
    done = audit(*NAMES[name].split(), cwd=run.parent)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"audit: run/{name}: it is ") and done.stderr.count("\n") == 1
    assert home.unharmed


@pytest.mark.parametrize("name", ["stages", "."])
def test_linked_folder_is_refused(run: Path, home: Home, name: str) -> None:
    place = run / name if name == "stages" else run
    place.rename(run.parent / "elsewhere")
    place.symlink_to(home.path / ".ssh")
    with pytest.raises(UsageError, match="is a link"):
        foreign.check(run)
    with pytest.raises(UsageError, match="is a link"), RunFolder(run, "x").held({}):
        pass
    assert home.unharmed


@pytest.mark.parametrize("to", ["../../stages/", "../stages", "../../../home/.ssh", "/tmp"])
def test_only_the_link_that_a_sweep_makes_is_followed(tmp_path: Path, to: str) -> None:
    home = tmp_path / "sweep" / "seeds" / "0"
    home.mkdir(parents=True)
    (tmp_path / "sweep" / "stages").mkdir()
    (home / "stages").symlink_to("../../stages")
    foreign.check(home)
    foreign.check(tmp_path / "sweep")
    (home / "stages").unlink()
    (home / "stages").symlink_to(to)
    with pytest.raises(UsageError, match=r"seeds/0/stages: it is a link"):
        foreign.check(tmp_path / "sweep")


def test_link_of_a_sweep_is_followed_from_its_seeds_only(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "stages").mkdir()
    (tmp_path / "a" / "b" / "stages").symlink_to("../../stages")
    with pytest.raises(UsageError, match="b/stages: it is a link"):
        foreign.check(tmp_path / "a" / "b")


def test_stages_of_a_sweep_are_looked_through_from_a_seed(tmp_path: Path, home: Home) -> None:
    seed = tmp_path / "sweep" / "seeds" / "0"
    seed.mkdir(parents=True)
    (seed / "stages").symlink_to("../../stages")
    (tmp_path / "sweep" / "stages").mkdir()
    (tmp_path / "sweep" / "stages" / "trained-x").symlink_to(home.path / ".bashrc")
    with pytest.raises(UsageError, match="trained-x: it is a link"):
        foreign.check(seed)
    (tmp_path / "sweep" / "stages" / "trained-x").unlink()
    (tmp_path / "sweep" / "stages").rmdir()
    (tmp_path / "sweep" / "stages").symlink_to(home.path)
    with pytest.raises(UsageError, match="is a link"):
        foreign.check(seed)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_file_of_another_user_is_refused(run: Path) -> None:
    os.chown(run / "stages" / "mask.key", 12345, 12345)
    with pytest.raises(UsageError, match=r"mask\.key: it belongs to another user"):
        foreign.check(run)
    os.chown(run, 12345, 12345)
    with pytest.raises(UsageError, match="run: it belongs to another user"):
        foreign.check(run)


def test_links_lead_no_run_elsewhere(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audits").symlink_to(home.path)
    for output in (None, Path("audits"), Path("audits/ci"), tmp_path / "audits"):
        with pytest.raises(UsageError, match=r"audits: is a link; give --output"):
            find(output, {})


def test_a_run_folder_leaves_other_modes_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with RunFolder(tmp_path / "run", "x").held({}):
        pass
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "run" / "stages").stat().st_mode) == 0o700


@pytest.mark.parametrize("command", ["figure run", "compare run run --format html"])
def test_output_that_cannot_be_made_is_one_line(
    run: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Html, "compared", lambda *_: {"x.html": b""})
    (run.parent / "file").write_text("mine")
    done = audit(*command.split(), "--output", "file/x", cwd=run.parent)
    assert done.returncode == 2 and done.stderr.startswith("audit: file/x: cannot be made")


def test_folder_without_an_end_is_refused(run: Path) -> None:
    (run / "stages" / "/".join("d" * 400)).mkdir(parents=True)
    for command in ("clean run", "report run --format csv"):
        done = audit(*command.split(), cwd=run.parent)
        assert done.returncode == 2 and "nested too deeply" in done.stderr


@pytest.mark.parametrize("name", ["ledger.jsonl", "SHA256SUMS", "evidence.json", "results.json"])
def test_file_of_a_terabyte_is_not_read(run: Path, name: str) -> None:
    with (run / name).open("r+b") as file:
        file.truncate(1 << 40)
    done = audit("verify", "run", cwd=run.parent)
    assert done.returncode in (1, 2) and "the run failed" not in done.stderr
    assert name in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["manifest.json", "evidence.json", "results.json"])
def test_file_of_many_values_is_not_read(
    run: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 million empty objects, in 9 MB, would take 300 MB; those of 128 MB 4 GB."""
    (run / name).write_text("[" + "{}," * (3 << 20) + "0]")
    monkeypatch.setattr(files.json, "loads", whole := Read(files.json.loads))
    done = audit("verify", "run", cwd=run.parent)
    assert done.returncode in (1, 2) and done.stderr.count("\n") <= 1
    assert whole.longest < 1 << 20


@dataclass
class Read:
    """Parses JSON, and remembers the longest text."""

    parse: Callable[[Any], Any]
    longest: int = 0

    def __call__(self, text: Any) -> Any:
        self.longest = max(self.longest, len(text))
        return self.parse(text)


def test_no_partial_outlives_resume_or_clean(run: Path) -> None:
    names = (".results.json.01234567.partial", "stages/.x.safetensors.89abcdef.partial")
    for command in ("resume", "clean"):
        (run / names[0]).write_text("half")
        (run / names[1]).mkdir()
        (run / names[1] / ".tmpabc").write_text("half")
        if command == "clean":
            clean(run)
        else:
            with RunFolder(run, "x").held({}):
                pass
        assert not any((run / name).exists() for name in names)
