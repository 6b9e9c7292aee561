"""Read BigPatent (Sharma et al., ACL 2019): JSON lines, each a `description` and its `abstract`.

A patent is one user with one record, its description. The id of the user is the patent's
publication number; on the hub, where there is none, a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from audit.core.corpus import Record
from audit.core.errors import UsageError
from audit.corpora import jsonl
from audit.corpora.part import Part


def recognises(part: Part) -> bool:
    """Return whether the part is of JSON lines and begins with a patent."""
    return _is_patent(jsonl.first(part))


def _is_patent(row: object) -> bool:
    """Return whether a row has both parts of a patent, and no text of its own."""
    if not isinstance(row, Mapping) or "text" in row or "messages" in row:
        return False
    return isinstance(row.get("description"), str) and isinstance(row.get("abstract"), str)


def records(part: Part) -> Iterator[Record]:
    """Read every patent of a part; one without a description is left out.

    Raises UsageError with file and line.
    """
    for number, row in jsonl.numbered(part):
        if not _is_patent(row):
            raise UsageError(
                f"{part.where(number)}: no 'description' with an 'abstract', unlike the rows "
                "before; remove it"
            )
        if row["description"].strip():
            own = {"text": row["description"], "user": row.get("publication_number")}
            yield from jsonl.record(own, part, number)
