"""Read BigPatent (Sharma et al., ACL 2019): JSON lines, each a `description` and its `abstract`.

A patent is one user with one record, its description. The id of the user is the patent's
publication number; on the hub, where there is none, a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.corpora import jsonl
from audit.corpora.part import Part


def recognises(part: Part) -> bool:
    """Return whether the file is one of JSON lines and begins with a patent."""
    return is_row(jsonl.first(part))


def is_row(row: object) -> bool:
    """Return whether a line, or a row of the hub, is a patent: both parts, no text of its own."""
    if not isinstance(row, Mapping) or "text" in row or "messages" in row:
        return False
    return isinstance(row.get("description"), str) and isinstance(row.get("abstract"), str)


def records(part: Part) -> Iterator[Record]:
    """Read every patent of a part. Raises UsageError with file and line."""
    return rows(jsonl.numbered(part), part)


def rows(numbered: Iterable[tuple[int, Mapping[str, Any]]], part: Part) -> Iterator[Record]:
    """Read every patent of (line number, row); one without a description is left out."""
    for number, row in numbered:
        if not is_row(row):
            raise UsageError(
                f"{part.where(number)}: no 'description' with an 'abstract', unlike the rows "
                "before; remove it"
            )
        if row["description"].strip():
            own = {"text": row["description"], "user": row.get("publication_number")}
            yield from jsonl.record(own, part, number)
