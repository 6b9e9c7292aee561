"""Reads corpora on disk: a .jsonl, .txt or .en file, or a folder of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.core.files import read_text
from audit.corpora import airdialogue, forms
from audit.corpora.part import JSON, Part, split_of

_KNOWN = (*JSON, ".txt", ".en")


def records(path: Path) -> Iterator[Record]:
    """Reads every record of a file or folder. Raises UsageError with file and line."""
    if path.is_dir():
        parts = _parts(path)
    elif path.suffix in _KNOWN:
        name = "line" if path.suffix in JSON else path.stem
        parts = iter([Part(name, str(path), _lines(path), file=path.name)])
    else:
        raise UsageError(
            f"{path}: unknown kind of file; a corpus is .jsonl, .txt, .en or a folder of them"
        )
    dialogues: list[Record] = []
    for part in parts:
        read = forms.reader(part)
        if read is airdialogue.records:
            dialogues += read(part)
        else:
            yield from read(part)
    yield from airdialogue.in_one_split(dialogues)


def _parts(folder: Path) -> Iterator[Part]:
    """Reads the files of a folder: train, valid and test files are splits.

    Without a train file, each plain text file is one user.
    """
    files = sorted(p for p in folder.rglob("*") if p.suffix in _KNOWN and p.is_file())
    if not files:
        raise UsageError(f"{folder}: no .jsonl, .txt or .en file in this folder")
    splits = any(split_of(path.stem) == "private" for path in files)
    titles: set[str] = set()
    for path in files:
        place, split = path.relative_to(folder), split_of(path.stem)
        json = path.suffix in JSON
        owner = None if splits or json else str(place.with_suffix(""))
        if split or not splits:
            name = owner or (str(place) if json else path.stem)
            of_part = split if splits else ""
            yield Part(name, str(path), _lines(path), of_part, owner, path.name, titles)


def _lines(path: Path) -> list[str]:
    try:
        # not splitlines(): form feeds and the like are part of JSON strings and lines of text
        return read_text(path, most=None).split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; convert it first") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
