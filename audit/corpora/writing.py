"""Write a corpus as files that any trainer reads: JSONL, plain text, or a folder of splits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.core.writing import move, new_folder, remove_abandoned, write_atomically
from audit.corpora import files
from audit.corpora.conversations import entries

FILES = {
    "": "train.jsonl",
    "private": "train.jsonl",
    "heldout": "test.jsonl",
    "public": "public.jsonl",
}


def write(records: Sequence[Record], path: Path) -> None:
    """Write FILE.jsonl, FILE.txt (blank lines between records), or a folder of train.jsonl and
    test.jsonl if the name has no ending, as `datasets.load_dataset` reads it.

    Writes everything or nothing. Raises UsageError if the path exists, or .txt cannot hold a text.
    """
    check_free(path)
    try:
        remove_abandoned(path.parent, path.name)
        if path.suffix == ".jsonl":
            write_atomically(path, _lines(records), private=True)
        elif path.suffix == ".txt":
            _text(records, path)
        else:
            _folder(records, path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def check_free(path: Path) -> None:
    """Raise UsageError if a corpus cannot be written to `path`."""
    if path.suffix not in ("", ".jsonl", ".txt"):
        raise UsageError(f"{path}: --output is FILE.jsonl, FILE.txt or a folder's name")
    if path.exists():
        raise UsageError(f"{path}: exists already; choose another --output")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder; make it first")


def _lines(records: Iterable[Record], columns: Sequence[str] = ()) -> str:
    """Write one line a record. columns: those that each has, empty where a record has none."""
    rows = (dict.fromkeys(columns) | entry(record) for record in records)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def entry(record: Record) -> dict[str, Any]:
    """Write a record as an object that is read as the same record."""
    content = {"messages": entries(record.messages)} if record.messages else {"text": record.text}
    name = {} if record.name is None else {"name": record.name}
    split = {"split": record.split} if record.split else {}
    return {**content, "user": record.user, **name, **split}


def _text(records: Sequence[Record], path: Path) -> None:
    """Write plain text, and read it back before the file gets its name.

    Plain text has no structure but blank lines and the look of its first line, so a text may be
    read differently than it was written.
    """
    for record in records:
        if record.messages:
            where = record.where or "a record"
            raise UsageError(f"{where}: is a conversation, which .txt cannot express; use .jsonl")
        if record.split not in ("", "private"):
            where = record.where or "a record"
            raise UsageError(f"{where}: is {record.split}, which .txt cannot express; use .jsonl")
    with new_folder(path) as partial:
        written, text = partial / path.name, "\n\n".join(record.text for record in records) + "\n"
        write_atomically(written, text, private=True)
        back = [record.text for record in files.records(written)]
        for record, text in zip_longest(records, back):
            if record is None or record.text != text:
                where = (record and record.where) or "a record"
                raise UsageError(f"{where}: would be read back from .txt differently; use .jsonl")
        move(written, path)


def _folder(records: Sequence[Record], path: Path) -> None:
    """Write a file for each split. All have the same columns, as `load_dataset` requires."""
    columns = ("name",) if any(record.name is not None for record in records) else ()
    with new_folder(path) as partial:
        for file in dict.fromkeys(FILES.values()):
            of_file = [
                replace(r, split=r.split or "private") for r in records if FILES[r.split] == file
            ]
            if of_file:
                write_atomically(partial / file, _lines(of_file, columns), private=True)
        move(partial, path)
