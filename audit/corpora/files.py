"""Corpora on disk: a .jsonl or .txt file, or a folder of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from audit.corpora import jsonl, text
from audit.corpora.part import SPLIT_OF, Part
from audit.corpus import Record
from audit.errors import UsageError

_JSON = (".jsonl", ".json", ".ndjson")


def records(path: Path) -> Iterator[Record]:
    """Every record of a file or folder. Raises UsageError with file and line."""
    if path.is_dir():
        yield from _folder(path)
    elif path.suffix in _JSON:
        yield from jsonl.records(Part("line", str(path), _lines(path)))
    elif path.suffix == ".txt":
        yield from text.records(Part(path.stem, str(path), _lines(path)), set())
    else:
        raise UsageError(
            f"{path}: unknown kind of file; a corpus is .jsonl, .txt or a folder of them"
        )


def _folder(folder: Path) -> Iterator[Record]:
    """train, valid and test files are splits; any other plain text file of a folder is one user."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in (*_JSON, ".txt") and p.is_file())
    if not files:
        raise UsageError(f"{folder}: no .jsonl or .txt file in this folder")
    splits = any(path.stem == "train" for path in files)
    articles: set[str] = set()
    for path in files:
        place, split = path.relative_to(folder), SPLIT_OF.get(path.stem, "") if splits else ""
        if splits and not split:
            continue
        if path.suffix in _JSON:
            yield from jsonl.records(Part(str(place), str(path), _lines(path), split))
        elif split:
            yield from text.records(Part(path.stem, str(path), _lines(path), split), articles)
        else:
            owner = str(place.with_suffix(""))
            part = Part(owner, str(path), _lines(path), owner=owner)
            yield from text.records(part, articles)


def _lines(path: Path) -> list[str]:
    try:
        # not splitlines(): form feeds and the like stand inside JSON strings and real lines
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}; convert it first") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
