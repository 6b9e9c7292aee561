"""A file is written whole or not at all, where nobody else has prepared its place."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import save_file
from torch import zeros

from audit.core import stages, writing
from audit.core.writing import append, append_lines, locked, make_folder, new_folder, replacing

HOW: dict[str, Callable[[Path], object]] = {
    "write": lambda path: writing.write_atomically(path, "new"),
    "append": lambda path: append(path, "new"),
    "append lines": lambda path: append_lines(path, [{"new": 1}]),
    "write once": lambda path: writing.write_once(path, "new" * 9),
    "stage": lambda path: stages.write(path, "new"),
    "lock": lambda path: held(path),
    "library": lambda path: saved(path),
    "copy": lambda path: writing.copy_file(Path(__file__), path),
}


def held(path: Path) -> None:
    with locked(path):
        pass


def saved(path: Path) -> None:
    with replacing(path) as partial:
        save_file({"x": zeros(9)}, partial)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("what", ["link", "dangling link", "hard link", "pipe", "folder"])
def test_only_a_plain_file_is_written(tmp_path: Path, how: str, what: str) -> None:
    mine, path = tmp_path / "mine", tmp_path / "place" / "file"
    path.parent.mkdir()
    mine.write_text("mine")
    if what == "dangling link":
        path.symlink_to(tmp_path / "nothing")
    elif what == "link":
        path.symlink_to(mine)
    elif what == "hard link":
        path.hardlink_to(mine)
    else:
        (os.mkfifo if what == "pipe" else Path.mkdir)(path)
    with pytest.raises(OSError, match="it is ") as refused:
        HOW[how](path)
    assert refused.value.filename == str(path)
    assert mine.read_text("utf-8") == "mine" and not (tmp_path / "nothing").exists()
    assert {p.name for p in path.parent.iterdir()} <= {"file", "signatures"}


@pytest.mark.parametrize("how", [how for how in HOW if how not in ("lock", "copy")])
def test_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path, real = tmp_path / "file", os.fsync
    if how in ("append", "append lines"):
        path.write_text("old\n")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as refused:
        HOW[how](path)
    monkeypatch.setattr(os, "fsync", real)
    assert Path(str(refused.value.filename)).name == "file"
    assert not path.exists() or path.read_text("utf-8") in ("old\n", "", "new" * 9)
    assert not list(tmp_path.glob(".*"))


def test_full_disk_of_a_library_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as refused, replacing(tmp_path / "f"):
        raise RuntimeError("I/O error: No space left on device (os error 28)")
    assert refused.value.errno == errno.ENOSPC and refused.value.filename == str(tmp_path / "f")
    assert not list(tmp_path.iterdir())


def test_private_files_and_folders_are_the_owners(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        writing.write_atomically(tmp_path / "a", "x", private=True)
        append_lines(tmp_path / "b", [{}])
        saved(tmp_path / "c")
        writing.copy_file(Path(__file__), tmp_path / "d")
        make_folder(tmp_path / "e", private=True)
        with new_folder(tmp_path / "f") as made:
            writing.move(made, tmp_path / "f")
        stages.write(tmp_path / "g", "x")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {
        **dict.fromkeys("abcdg", 0o600),
        **dict.fromkeys(["e", "f", "signatures"], 0o700),
    }


@pytest.mark.parametrize("code", ["write_atomically(path, b'x' * 10**8)", "replacing(path)"])
def test_only_what_a_killed_process_left_is_removed(tmp_path: Path, code: str) -> None:
    """A process that waits in the middle of a write, and is killed there."""
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom audit.core import writing\n"
        "def wait(*_):\n    print(flush=True)\n    signal.pause()\n"
        "path = Path(sys.argv[1])\nos.fsync = wait\n"
    )
    script += f"with writing.{code} as made: wait()" if "repl" in code else f"writing.{code}"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "file")], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        (left,) = tmp_path.iterdir()
        writing.remove_abandoned(tmp_path)
        assert left.exists()
        process.kill()
        process.wait()
    writing.remove_abandoned(tmp_path, "another")
    assert left.exists()
    writing.remove_abandoned(tmp_path, "file")
    assert not left.exists()
