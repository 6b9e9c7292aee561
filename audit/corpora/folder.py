"""List the files of a corpus folder: what belongs to the corpus, and what only lies beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from audit.core.files import read_json

_BESIDE = ("__MACOSX", "Thumbs.db", "desktop.ini")  # what systems leave in folders
_LOCKED = ("~$", "#")  # how names of editors' lock files begin
_NOBODY = "__HIVE_DEFAULT_PARTITION__"  # of rows that have nothing in this column
_MANIFEST = {"secrets", "coins"}  # keys of a manifest of planted secrets
_CACHED = re.compile(r"cache-.*\.arrow")  # copies that `Dataset.map` leaves beside the saved files
_SAVED = {"state.json", "dataset_info.json", "dataset_dict.json"}  # beside saved Arrow files


@dataclass(frozen=True)
class Listed:
    """The files of a corpus with their kinds, in order of their paths, and those left out by name.

    foreign: files that are not texts of a known kind. beside: what does not belong to a corpus.
    """

    files: dict[Path, str]
    foreign: tuple[str, ...]
    beside: tuple[str, ...]

    @property
    def notes(self) -> list[str]:
        """Describe what was left out, by number and first names."""
        lines = []
        for names, why in ((self.foreign, "of other kinds"), (self.beside, "beside the corpus")):
            if names:
                shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
                lines.append(f"left out, {why}: {len(names)} files ({shown})")
        return lines


def listed(folder: Path, kind_of: Callable[[Path], str]) -> Listed:
    """List a folder. kind_of: returns the ending that shows a known kind of file, or ""."""
    files, foreign, beside = dict[Path, str](), list[str](), list[str]()
    for path in _walked(folder):
        name = str(path.relative_to(folder))
        if _is_beside(path, folder) or path.is_dir():
            beside.append(name)
        elif path.name in _SAVED:
            continue  # it describes the files that are read
        elif not (kind := kind_of(path)):
            foreign.append(name)
        elif kind == ".json" and _is_manifest(path):
            beside.append(name)
        else:
            files[path] = kind
    return Listed(files, tuple(foreign), tuple(beside))


def partitions(place: Path) -> dict[str, str | None]:
    """Read the columns that folders of a partitioned table name: user=ann/0.parquet."""
    named = (unquote(part).partition("=") for part in place.parts[:-1] if "=" in part)
    return {name: None if value == _NOBODY else value for name, _, value in named}


def _walked(folder: Path) -> Iterator[Path]:
    """Walk all files below a folder in order; of run folders and links to folders the name alone.

    Such links are not followed: they may lead outside, or round in a circle.
    """
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink() and not _is_run(path):
            yield from _walked(path)
        else:
            yield path


def _is_beside(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    hidden = any(part.startswith(".") or part in _BESIDE for part in parts)
    locked = path.name.startswith(_LOCKED) or path.name.endswith((".lock", "~"))
    return hidden or locked or _CACHED.fullmatch(path.name) is not None


def _is_run(folder: Path) -> bool:
    """Check whether a folder is one that a run of this tool has written."""
    return (folder / "manifest.json").is_file() and (folder / "stages").is_dir()


def _is_manifest(path: Path) -> bool:
    try:
        document = read_json(path)
    except (OSError, ValueError, json.JSONDecodeError):
        return False
    return isinstance(document, dict) and set(document) >= _MANIFEST
