"""A corpus as files that any trainer reads: JSONL, plain text, or a folder of splits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.core.files import write_atomically
from audit.corpora import files

FILES = {
    "": "train.jsonl",
    "private": "train.jsonl",
    "heldout": "test.jsonl",
    "public": "public.jsonl",
}


def write(records: Sequence[Record], path: Path) -> None:
    """Writes FILE.jsonl, FILE.txt (a blank line between records), or, where the name has no ending,
    a folder of train.jsonl and test.jsonl, as `datasets.load_dataset` reads it.

    Whole or not at all. Raises UsageError where the place is taken, or the form cannot hold a text.
    """
    check_free(path)
    try:
        if path.suffix == ".jsonl":
            write_atomically(path, _lines(records))
        elif path.suffix == ".txt":
            _text(records, path)
        else:
            _folder(records, path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def check_free(path: Path) -> None:
    """Raises UsageError where a corpus cannot be written to `path`."""
    if path.suffix not in ("", ".jsonl", ".txt"):
        raise UsageError(f"{path}: --output is FILE.jsonl, FILE.txt or a folder's name")
    if path.exists():
        raise UsageError(f"{path}: is there already; choose another --output")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder; make it first")


def _lines(records: Sequence[Record]) -> str:
    return "".join(json.dumps(_entry(record), ensure_ascii=False) + "\n" for record in records)


def _entry(record: Record) -> dict[str, str]:
    entry = {"text": record.text, "user": record.user}
    name = {} if record.name is None else {"name": record.name}
    return entry | name | ({"split": record.split} if record.split else {})


def _text(records: Sequence[Record], path: Path) -> None:
    """Text has no marks but blank lines and what a first line looks like: it is read back, in a
    folder aside, before it counts."""
    for record in records:
        if record.split not in ("", "private"):
            where = record.where or "a record"
            raise UsageError(f"{where}: is {record.split}, which .txt cannot say; use .jsonl")
    with _aside(path) as partial:
        partial.mkdir()
        written = partial / path.name
        write_atomically(written, "\n\n".join(record.text for record in records) + "\n")
        back = [record.text for record in files.records(written)]
        for record, text in zip_longest(records, back):
            if record is None or record.text != text:
                where = (record and record.where) or "a record"
                raise UsageError(f"{where}: does not come back from .txt as it is; use .jsonl")
        written.rename(path)


def _folder(records: Sequence[Record], path: Path) -> None:
    with _aside(path) as partial:
        partial.mkdir()
        for file in dict.fromkeys(FILES.values()):
            ours = [record for record in records if FILES[record.split] == file]
            if ours:
                write_atomically(partial / file, _lines(ours))
        partial.rename(path)


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A place beside `path`, empty, and empty again in the end, however that comes."""
    partial = path.with_name(f".{path.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
