"""Run folders of random strangers: nothing outside is touched, no command hangs or fails unread."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from audit.results.folder import RunFolder
from tests.command_line import audit
from tests.security.homes import Home, seen

COMMANDS = (
    "report run --format html,csv",
    "gate run",
    "gate run --format junit,sarif",
    "verify run",
    "compare run run",
    "clean run",
    "export run dp_sgd out",
    "baseline update run --reason x",
    "hold run",
)
JSON = ("null", "[]", "{}", "[" * 9_000, '{"a": 1}', '"\\ud800"', "1e999", '{"digest": "x"}')
SECONDS = 60  # that one command may take on a busy machine


def puts(draw: random.Random, run: Path, home: Path) -> None:
    """Does one hostile thing to a run folder."""
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and not path.is_symlink()]
    files = [path for path in files if path.stat().st_nlink == 1]  # what is the user's stays so
    new = [run / "report.html", run / "junit.xml", run / "stages" / "session-0.json"]
    new += [run / "stages" / "signatures" / "mask.key", run / ".results.json.01234567.partial"]
    path = draw.choice([*files, *new, run / "stages"])
    if path.parent.is_symlink() or not path.parent.is_dir():  # of an earlier hostile thing
        return
    how = draw.choice(["link", "far link", "hard link", "pipe", "folder", "text", "swap", "cut"])
    if how == "cut" and path.is_file():
        path.write_bytes(path.read_bytes()[: draw.randrange(200)])
        return
    if how == "swap" and path.is_file():
        other = draw.choice(files)
        content = other.read_bytes()
        other.write_bytes(path.read_bytes())
        path.write_bytes(content)
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    target = draw.choice([home / ".bashrc", home / ".ssh", Path("/dev/zero"), Path("nothing")])
    if how == "link":
        path.symlink_to(target)
    elif how == "far link":
        path.symlink_to(os.path.relpath(target, path.parent))
    elif how == "hard link":
        path.hardlink_to(home / ".bashrc")
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    else:
        path.write_text(draw.choice(JSON))


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in a block that takes longer."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def hold(run: Path) -> str:
    """What a run does of its folder before it trains; returns what it refuses."""
    from audit.core.errors import DamagedError, UsageError

    folder = RunFolder(run, "h")
    try:
        with folder.held({}):
            folder.admit()
            assert len(folder.key) == 64
            folder.journal("s").rows()
    except (UsageError, DamagedError) as refused:
        return str(refused)
    except OSError as refused:  # the command line names the file
        assert refused.filename and refused.errno in (errno.EINVAL, errno.EISDIR, errno.ENOTDIR)
        return str(refused.strerror)
    return ""


@pytest.mark.slow
def test_no_folder_harms_its_reader(
    run: Path, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 folders, each with one to three hostile things, under one command."""
    draw, pristine = random.Random(1), tmp_path / "pristine"
    shutil.copytree(run, pristine)
    refusals = 0
    for case in range(300):
        place = tmp_path / "case"
        place.mkdir()
        shutil.copytree(pristine, place / "run")
        for _ in range(draw.randint(1, 3)):
            puts(draw, place / "run", home.path)
        words = draw.choice(COMMANDS)
        with at_most(SECONDS):
            if words.startswith("hold"):
                said = hold(place / "run")
            else:
                done = audit(*words.split(), cwd=place)
                said = done.stderr
                assert done.returncode in (0, 1, 2, 3, 4), (case, words)
        assert home.unharmed, (case, words)
        assert "Traceback" not in said and "the run failed" not in said, (case, words, said)
        assert said.count("\n") <= 1, (case, words, said)
        refusals += bool(said)
        others = {"run", "out", "audit-baseline.json"}
        assert {path.name for path in place.iterdir()} <= others, (case, words)
        shutil.rmtree(place)
    assert 60 < refusals < 270  # of both kinds enough


def test_home_is_looked_at(home: Home) -> None:
    (home.path / ".ssh" / "authorized_keys").chmod(0o600)
    assert not home.unharmed and seen(home.path) != home.before
