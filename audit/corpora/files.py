"""Corpora on disk: a .jsonl, .txt or .en file, or a folder of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.corpora import airdialogue, europarl, jsonl, text
from audit.corpora.part import Part, split_of

_JSON = (".jsonl", ".json", ".ndjson")
_KNOWN = (*_JSON, ".txt", ".en")


def records(path: Path) -> Iterator[Record]:
    """Every record of a file or folder. Raises UsageError with file and line."""
    if path.is_dir():
        yield from _folder(path)
    elif path.suffix in _JSON:
        part = Part("line", str(path), _lines(path))
        yield from airdialogue.records(part) if airdialogue.is_one(part) else jsonl.records(part)
    elif path.suffix in _KNOWN:
        yield from _written(path, Part(path.stem, str(path), _lines(path)), set())
    else:
        raise UsageError(
            f"{path}: unknown kind of file; a corpus is .jsonl, .txt, .en or a folder of them"
        )


def _folder(folder: Path) -> Iterator[Record]:
    """train, valid and test files are splits; any other plain text file of a folder is one user."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in _KNOWN and p.is_file())
    if not files:
        raise UsageError(f"{folder}: no .jsonl, .txt or .en file in this folder")
    splits = any(split_of(path.stem) == "private" for path in files)
    articles: set[str] = set()
    dialogues: list[Record] = []
    for path in files:
        place, split = path.relative_to(folder), split_of(path.stem)
        if splits and not split:
            continue
        if path.suffix in _JSON:
            part = Part(str(place), str(path), _lines(path), split if splits else "")
            if airdialogue.is_one(part):
                dialogues += airdialogue.records(part)
            else:
                yield from jsonl.records(part)
        elif splits:
            yield from _written(path, Part(path.stem, str(path), _lines(path), split), articles)
        else:
            owner = str(place.with_suffix(""))
            part = Part(owner, str(path), _lines(path), owner=owner)
            yield from _written(path, part, articles)
    yield from airdialogue.settled(dialogues)


def _written(path: Path, part: Part, articles: set[str]) -> Iterator[Record]:
    """Plain text: a line a sentence where the name says so, else what its first lines show."""
    return europarl.records(part) if europarl.is_file(path) else text.records(part, articles)


def _lines(path: Path) -> list[str]:
    try:
        # not splitlines(): form feeds and the like stand inside JSON strings and real lines
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; convert it first") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
