"""Refuses a run folder that holds what no run puts there: a stranger may have made it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from audit.core import writing
from audit.core.errors import UsageError

_DEEPEST = 8  # folders below a run folder
_OF_A_RUN = ("stages", "seeds")
OF_A_SWEEP = os.path.join("..", "..", "stages")  # where the stages of its runs are a link to


def check(folder: Path) -> None:
    """Raise UsageError for the first link, device, pipe or second name of a file in a run folder,
    and for what belongs to another user.

    The stages of a sweep's run are those of the sweep; they are looked through, too.
    """
    try:
        for place in (folder, stages_of(folder)):
            if os.path.lexists(place):
                writing.check_folder(place)
                _check(place, of_a_run=place == folder)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None


def stages_of(folder: Path) -> Path:
    """Return the folder of a run's stages; of a sweep's run, those of the sweep."""
    stages = folder / "stages"
    if stages.is_symlink() and os.readlink(stages) == OF_A_SWEEP:
        home = folder.resolve()
        if home.parent.name == "seeds":
            return home.parent.parent / "stages"
    return stages


def _check(folder: Path, of_a_run: bool) -> None:
    for entry in _within(folder, of_a_run):
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # another process has given it its name
            continue
        reason = "" if stat.S_ISDIR(found.st_mode) else writing.refusal(found)
        if found.st_uid != os.geteuid():
            reason = "it belongs to another user; copy the run folder first"
        if reason and not _is_link_of_a_sweep(Path(entry.path)):
            raise UsageError(f"{entry.path}: {reason}")


def _within(folder: Path, of_a_run: bool, depth: int = 0) -> Iterator[os.DirEntry[str]]:
    """Yield all that lies in a folder, and in the folders that a run makes in it."""
    if depth > _DEEPEST:
        raise OSError(errno.EINVAL, "its folders are nested too deeply; remove it", str(folder))
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            yield entry
            if entry.is_dir(follow_symlinks=False) and (not of_a_run or entry.name in _OF_A_RUN):
                yield from _within(Path(entry.path), False, depth + 1)


def _is_link_of_a_sweep(path: Path) -> bool:
    return path.name == "stages" and path.is_symlink() and stages_of(path.parent) != path
