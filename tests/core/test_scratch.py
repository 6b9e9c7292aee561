"""Scratch folders: private, removed at the end, and after a kill by the next who looks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from audit.core.scratch import SHORT, remove_abandoned, scratch

KILLED = """
import os, signal, sys
from pathlib import Path
from audit.core.scratch import scratch
with scratch(Path(sys.argv[1])) as folder:
    (folder / "stages").mkdir()
    (folder / "stages" / "model").write_bytes(b"x" * 1000)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.stat().st_mode & 0o077 == 0
    with scratch(tmp_path) as mine:
        assert remove_abandoned(tmp_path) >= 1000
        assert list(tmp_path.iterdir()) == [mine]
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    """Other names, files, and links, which would lead out of the folder."""
    name = "audit-ray-0123456789abcdef"
    other, links, files = (tmp_path / part for part in ("other", "links", "files"))
    for folder in (other, links, files):
        folder.mkdir()
    (other / f"{name}-mine").mkdir()
    (other / "audit-ray-").mkdir()
    (links / name).symlink_to(other, target_is_directory=True)
    (files / name).write_text("")
    assert sum(map(remove_abandoned, (other, links, files))) == 0
    assert len(list(other.iterdir())) == 2
    assert (links / name).is_symlink() and (files / name).is_file()


def test_one_that_is_swept_away_at_its_birth_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock anybody may take it for abandoned: before or after it is
    opened."""
    real, opened = os.open, []

    def swept(path: Any, flags: int, *more: Any) -> int:
        opened.append(path)
        if len(opened) == 1:
            os.rmdir(path)
        lock = real(path, flags, *more)
        if len(opened) == 2:
            os.rmdir(path)
        return lock

    monkeypatch.setattr(os, "open", swept)
    with scratch(tmp_path) as folder:
        assert folder.exists() and folder == opened[2]
        monkeypatch.undo()
        remove_abandoned(tmp_path)
        assert folder.exists()


def test_sockets_of_ray_have_paths_that_are_short_enough() -> None:
    with scratch(SHORT) as folder:
        session = "session_2026-11-22_22-50-58_123456_4194304/sockets/plasma_store"
        assert len(str(folder / "ray" / session)) <= 107
